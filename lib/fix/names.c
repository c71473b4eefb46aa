/* SPDX-License-Identifier: BSD-2-Clause */
/* fix/names.c - look-ups in the tables of names; a message type is found by its bytes. */
#include <string.h>

#include "names.h"
#include "names_internal.h"

/* Many to a line. */
/* clang-format off */
static const struct {
    char type[4];
    const char *name;
} types[] = {
    {"0", "Heartbeat"}, {"1", "TestRequest"}, {"2", "ResendRequest"}, {"3", "Reject"},
    {"4", "SequenceReset"}, {"5", "Logout"}, {"6", "IOI"}, {"7", "Advertisement"},
    {"8", "ExecutionReport"}, {"9", "OrderCancelReject"}, {"A", "Logon"}, {"B", "News"},
    {"C", "Email"}, {"D", "NewOrderSingle"}, {"E", "NewOrderList"}, {"F", "OrderCancelRequest"},
    {"G", "OrderCancelReplaceRequest"}, {"H", "OrderStatusRequest"},
    {"J", "AllocationInstruction"}, {"K", "ListCancelRequest"}, {"L", "ListExecute"},
    {"M", "ListStatusRequest"}, {"N", "ListStatus"}, {"P", "AllocationInstructionAck"},
    {"Q", "DontKnowTrade"}, {"R", "QuoteRequest"}, {"S", "Quote"}, {"T", "SettlementInstructions"},
    {"V", "MarketDataRequest"}, {"W", "MarketDataSnapshotFullRefresh"},
    {"X", "MarketDataIncrementalRefresh"}, {"Y", "MarketDataRequestReject"}, {"Z", "QuoteCancel"},
    {"a", "QuoteStatusRequest"}, {"b", "MassQuoteAcknowledgement"},
    {"c", "SecurityDefinitionRequest"}, {"d", "SecurityDefinition"},
    {"e", "SecurityStatusRequest"}, {"f", "SecurityStatus"}, {"g", "TradingSessionStatusRequest"},
    {"h", "TradingSessionStatus"}, {"i", "MassQuote"}, {"j", "BusinessMessageReject"},
    {"k", "BidRequest"}, {"l", "BidResponse"}, {"m", "ListStrikePrice"}, {"n", "XMLnonFIX"},
    {"o", "RegistrationInstructions"}, {"p", "RegistrationInstructionsResponse"},
    {"q", "OrderMassCancelRequest"}, {"r", "OrderMassCancelReport"}, {"s", "NewOrderCross"},
    {"t", "CrossOrderCancelReplaceRequest"}, {"u", "CrossOrderCancelRequest"},
    {"v", "SecurityTypeRequest"}, {"w", "SecurityTypes"}, {"x", "SecurityListRequest"},
    {"y", "SecurityList"}, {"z", "DerivativeSecurityListRequest"},
    {"AA", "DerivativeSecurityList"}, {"AB", "NewOrderMultileg"},
    {"AC", "MultilegOrderCancelReplace"}, {"AD", "TradeCaptureReportRequest"},
    {"AE", "TradeCaptureReport"}, {"AF", "OrderMassStatusRequest"}, {"AG", "QuoteRequestReject"},
    {"AH", "RFQRequest"}, {"AI", "QuoteStatusReport"}, {"AJ", "QuoteResponse"},
    {"AK", "Confirmation"}, {"AL", "PositionMaintenanceRequest"},
    {"AM", "PositionMaintenanceReport"}, {"AN", "RequestForPositions"},
    {"AO", "RequestForPositionsAck"}, {"AP", "PositionReport"},
    {"AQ", "TradeCaptureReportRequestAck"}, {"AR", "TradeCaptureReportAck"},
    {"AS", "AllocationReport"}, {"AT", "AllocationReportAck"}, {"AU", "ConfirmationAck"},
    {"AV", "SettlementInstructionRequest"}, {"AW", "AssignmentReport"},
    {"AX", "CollateralRequest"}, {"AY", "CollateralAssignment"}, {"AZ", "CollateralResponse"},
    {"BA", "CollateralReport"}, {"BB", "CollateralInquiry"},
    {"BC", "NetworkCounterpartySystemStatusRequest"},
    {"BD", "NetworkCounterpartySystemStatusResponse"}, {"BE", "UserRequest"},
    {"BF", "UserResponse"}, {"BG", "CollateralInquiryAck"}, {"BH", "ConfirmationRequest"},
};
/* clang-format on */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static int same(const char *text, const uint8_t *bytes, size_t length)
{
    return strlen(text) == length && memcmp(text, bytes, length) == 0;
}

const char *taut__tag_name(uint32_t tag)
{
    size_t low = 0, high = taut__fix_tag_name_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (taut__fix_tag_names[middle].tag < tag)
            low = middle + 1;
        else
            high = middle;
    }
    int found = low < taut__fix_tag_name_count && taut__fix_tag_names[low].tag == tag;
    return found ? taut__fix_tag_names[low].name : NULL;
}

const char *taut__msg_type_name(const uint8_t *type, size_t length)
{
    for (size_t i = 0; i < COUNT(types); i++)
        if (same(types[i].type, type, length))
            return types[i].name;
    return NULL;
}

static int is_boolean(uint32_t tag)
{
    for (size_t i = 0; i < taut__fix_boolean_tag_count; i++)
        if (taut__fix_boolean_tags[i] == tag)
            return 1;
    return 0;
}

const char *taut__value_meaning(uint32_t tag, const uint8_t *value, size_t length)
{
    if (length == 0)
        return NULL;
    if (tag == 35 || tag == 372) /* MsgType, RefMsgType */
        return taut__msg_type_name(value, length);
    if (length == 1 && (value[0] == 'Y' || value[0] == 'N') && is_boolean(tag))
        return value[0] == 'Y' ? "yes" : "no";
    const uint8_t *blank = memchr(value, ' ', length);
    size_t word = blank ? (size_t)(blank - value) : length;
    size_t low = 0, high = taut__fix_value_meaning_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (taut__fix_value_meanings[middle].tag < tag)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < taut__fix_value_meaning_count && taut__fix_value_meanings[low].tag == tag; low++)
        if (same(taut__fix_value_meanings[low].value, value, word))
            return taut__fix_value_meanings[low].meaning;
    return NULL;
}

int taut__tag_is_secret(uint32_t tag, const uint8_t *type, size_t type_length)
{
    switch (tag) {
    case 554:  /* Password */
    case 925:  /* NewPassword */
    case 1402: /* EncryptedPassword */
    case 1404: /* EncryptedNewPassword */
        return 1;
    case 96: /* RawData */
        return !type || same("A", type, type_length);
    default:
        return 0;
    }
}
