// SPDX-License-Identifier: BSD-2-Clause
//
// bench_scan_quickfix - our scan beside QuickFIX's parse of the same bytes.
//
//   bench_scan_quickfix [ROUNDS]
//
// Both take 1024 different ExecutionReports of 252 bytes and 26 fields, checksum verified, in
// turns: a round of the one, a round of the other, the order turned round every time. A ratio is
// taken within a round. QuickFIX parses into a FIX::Message that is reused, without a data
// dictionary, which is the fastest way that its interface has.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <time.h>
#include <vector>

#include <quickfix/Message.h>

#include <taut/scan.h>

#include "messages.h"

namespace
{
const std::uint32_t many = 1024;
const std::uint32_t turns = 4;
volatile std::uint64_t sink;

std::uint64_t now_ns()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return std::uint64_t(t.tv_sec) * 1000000000u + std::uint64_t(t.tv_nsec);
}

double run_taut(const struct messages &m, taut_scan_function *scan, struct taut_message *message)
{
    std::uint64_t sum = 0, begin_ns = now_ns();
    for (std::uint32_t turn = 0; turn < turns; turn++)
        for (std::uint32_t i = 0; i < m.count; i++)
            sum += scan(message, m.bytes + m.offset[i], m.length[i]) + message->count;
    double ns = double(now_ns() - begin_ns) / (turns * m.count);
    sink = sink + sum;
    return ns;
}

double run_reused(const std::vector<std::string> &texts, FIX::Message &message)
{
    std::uint64_t sum = 0, begin_ns = now_ns();
    for (std::uint32_t turn = 0; turn < turns; turn++) {
        for (const std::string &text : texts) {
            message.setString(text, true);
            sum += message.getHeader().isSetField(35);
        }
    }
    double ns = double(now_ns() - begin_ns) / double(turns * texts.size());
    sink = sink + sum;
    return ns;
}

double run_new(const std::vector<std::string> &texts)
{
    std::uint64_t sum = 0, begin_ns = now_ns();
    for (std::uint32_t turn = 0; turn < turns; turn++) {
        for (const std::string &text : texts) {
            FIX::Message message(text, true);
            sum += message.getHeader().isSetField(35);
        }
    }
    double ns = double(now_ns() - begin_ns) / double(turns * texts.size());
    sink = sink + sum;
    return ns;
}

double middle(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}
void print(const char *name, const std::vector<double> &ns)
{
    std::printf("%-24s %10.1f (least %.1f)\n", name, middle(ns),
                *std::min_element(ns.begin(), ns.end()));
}
} // namespace

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? std::atoi(argv[1]) : 101;
    if (argc > 2 || rounds < 1 || rounds > 100000) {
        std::fprintf(stderr, "usage: bench_scan_quickfix [ROUNDS]\n");
        return 2;
    }
    struct messages m = messages_reports(many);
    std::vector<std::string> texts;
    for (std::uint32_t i = 0; i < m.count; i++)
        texts.emplace_back(reinterpret_cast<const char *>(m.bytes + m.offset[i]), m.length[i]);
    static struct taut_message message;
    taut_scan_function *scan = taut_scan_select(TAUT_SCAN_AUTO);
    FIX::Message parsed;
    std::vector<double> ours, reused, fresh, ratios;
    run_taut(m, scan, &message);
    run_reused(texts, parsed);
    std::uint32_t length;
    if (!parsed.isSetField(37) || !taut_message_get(&message, 37, &length)) {
        std::fprintf(stderr, "bench_scan_quickfix: a message was not parsed\n");
        return 1;
    }
    for (int round = 0; round < rounds; round++) {
        for (int arm = 0; arm < 3; arm++) {
            switch (round % 2 ? 2 - arm : arm) {
            case 0:
                ours.push_back(run_taut(m, scan, &message));
                break;
            case 1:
                reused.push_back(run_reused(texts, parsed));
                break;
            default:
                fresh.push_back(run_new(texts));
            }
        }
        ratios.push_back(std::min(reused.back(), fresh.back()) / ours.back());
    }
    std::printf("ns a message of %u bytes and %u fields, variant %s, %d rounds of %u\n",
                REPORT_BYTES, REPORT_FIELDS, taut_scan_name(taut_scan_best()), rounds,
                turns * many);
    print("taut", ours);
    print("QuickFIX, reused message", reused);
    print("QuickFIX, new message", fresh);
    std::printf("%-24s %10.1f (%.1f .. %.1f)\n", "ratio", middle(ratios),
                *std::min_element(ratios.begin(), ratios.end()),
                *std::max_element(ratios.begin(), ratios.end()));
    messages_free(&m);
    return 0;
}
