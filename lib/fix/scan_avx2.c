/* SPDX-License-Identifier: BSD-2-Clause */
#include "scan_internal.h"

#if defined(__x86_64__)
uint32_t taut__scan_avx2(struct taut_message *message, const uint8_t *data, uint32_t length)
{
    return taut__scan_swar(message, data, length);
}
#endif
