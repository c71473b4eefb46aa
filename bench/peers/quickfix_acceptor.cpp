/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench/peers/quickfix_acceptor - QuickFIX's SocketAcceptor answering orders as taut's `fill`
 * handler does: NewOrderSingle -> one ExecutionReport with the same fields, 212 bytes for the load
 * generator's default order while MsgSeqNum has five digits.
 *
 * Set up to be as fast as its settings allow for the same duty: one event thread (what
 * SocketAcceptor is), no data dictionary, no log, TCP_NODELAY, memory store, values copied as text
 * and not through double. Sent messages are not kept, because the gateway beside it keeps none
 * either; --persist turns QuickFIX's default, keeping them in memory, back on.
 *
 * Sessions are FIX.4.4, TAUT here, LOAD0001 .. LOADnnnn there (--target, --sessions). Prints
 * `listening on 127.0.0.1:PORT` (it listens on all addresses: QuickFIX offers nothing else); ends
 * by SIGTERM or SIGINT.
 */
#include <getopt.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <quickfix/Application.h>
#include <quickfix/Log.h>
#include <quickfix/MessageStore.h>
#include <quickfix/Session.h>
#include <quickfix/SessionSettings.h>
#include <quickfix/SocketAcceptor.h>

namespace
{

class NoLogFactory : public FIX::LogFactory
{
  public:
    FIX::Log *create() override
    {
        return new FIX::NullLog;
    }
    FIX::Log *create(const FIX::SessionID &) override
    {
        return new FIX::NullLog;
    }
    void destroy(FIX::Log *log) override
    {
        delete log;
    }
};

std::string padded(std::uint64_t number, std::size_t digits)
{
    std::string text = std::to_string(number);
    return text.size() < digits ? std::string(digits - text.size(), '0') + text : text;
}

class Filler : public FIX::Application
{
  public:
    void onCreate(const FIX::SessionID &) override
    {
    }
    void onLogon(const FIX::SessionID &) override
    {
    }
    void onLogout(const FIX::SessionID &) override
    {
    }
    void toAdmin(FIX::Message &, const FIX::SessionID &) override
    {
    }
    void toApp(FIX::Message &, const FIX::SessionID &) throw(FIX::DoNotSend) override
    {
    }
    void fromAdmin(const FIX::Message &,
                   const FIX::SessionID &) throw(FIX::FieldNotFound, FIX::IncorrectDataFormat,
                                                 FIX::IncorrectTagValue, FIX::RejectLogon) override
    {
    }
    void fromApp(const FIX::Message &order,
                 const FIX::SessionID &session) throw(FIX::FieldNotFound, FIX::IncorrectDataFormat,
                                                      FIX::IncorrectTagValue,
                                                      FIX::UnsupportedMessageType) override
    {
        if (order.getHeader().getField(35) != "D")
            throw FIX::UnsupportedMessageType();
        const std::string &quantity = order.getField(38), &price = order.getField(44);
        FIX::Message report;
        report.getHeader().setField(35, "8");
        report.setField(37, padded(++number_, 12));
        report.setField(11, order.getField(11));
        report.setField(150, "F");
        report.setField(39, "2");
        report.setField(55, order.getField(55));
        report.setField(54, order.getField(54));
        report.setField(38, quantity);
        report.setField(44, price);
        report.setField(32, quantity);
        report.setField(31, price);
        report.setField(151, "0");
        report.setField(14, quantity);
        report.setField(6, price);
        report.setField(17, padded(number_, 14));
        FIX::Session::sendToTarget(report, session);
    }

  private:
    std::uint64_t number_ = 0; /* one event thread: no lock */
};

struct Options {
    unsigned port = 0, sessions = 32;
    int cpu = -1;
    bool persist = false;
    std::string target = "LOAD";
};

FIX::SessionSettings settings_of(const Options &options)
{
    FIX::SessionSettings settings;
    FIX::Dictionary common;
    common.setString(FIX::CONNECTION_TYPE, "acceptor");
    common.setString(FIX::SOCKET_ACCEPT_PORT, std::to_string(options.port));
    common.setString(FIX::SOCKET_REUSE_ADDRESS, "Y");
    common.setString(FIX::SOCKET_NODELAY, "Y");
    common.setString(FIX::USE_DATA_DICTIONARY, "N");
    common.setString(FIX::PERSIST_MESSAGES, options.persist ? "Y" : "N");
    common.setString(FIX::RESET_ON_LOGON, "Y");
    common.setString(FIX::START_TIME, "00:00:00");
    common.setString(FIX::END_TIME, "00:00:00");
    settings.set(common);
    for (unsigned i = 1; i <= options.sessions; i++)
        settings.set(FIX::SessionID("FIX.4.4", "TAUT", options.target + padded(i, 4)),
                     FIX::Dictionary());
    return settings;
}

/* The port of the one listening socket of this process; QuickFIX does not tell it. 0 = none. */
unsigned listening_port()
{
    for (int fd = 0; fd < 1024; fd++) {
        int listens = 0;
        socklen_t size = sizeof listens;
        sockaddr_in address;
        socklen_t address_size = sizeof address;
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens &&
            getsockname(fd, reinterpret_cast<sockaddr *>(&address), &address_size) == 0 &&
            address.sin_family == AF_INET)
            return ntohs(address.sin_port);
    }
    return 0;
}

unsigned number(const char *text, unsigned least, unsigned most)
{
    char *end;
    errno = 0;
    unsigned long value = std::strtoul(text, &end, 10);
    if (errno || *end || end == text || *text == '-' || value < least || value > most) {
        std::fprintf(stderr, "quickfix_acceptor: \"%s\" is not a number from %u to %u\n", text,
                     least, most);
        std::exit(2);
    }
    return static_cast<unsigned>(value);
}

Options take_options(int argc, char **argv)
{
    static const option known[] = {
        {"port", required_argument, nullptr, 'p'},     {"cpu", required_argument, nullptr, 'c'},
        {"sessions", required_argument, nullptr, 's'}, {"target", required_argument, nullptr, 't'},
        {"persist", no_argument, nullptr, 'k'},        {nullptr, 0, nullptr, 0}};
    Options options;
    int letter;
    while ((letter = getopt_long(argc, argv, "", known, nullptr)) != -1) {
        switch (letter) {
        case 'p':
            options.port = number(optarg, 0, 65535);
            break;
        case 'c':
            options.cpu = static_cast<int>(number(optarg, 0, CPU_SETSIZE - 1));
            break;
        case 's':
            options.sessions = number(optarg, 1, 10000);
            break;
        case 't':
            options.target = optarg;
            break;
        case 'k':
            options.persist = true;
            break;
        default:
            optind = argc + 1;
        }
    }
    if (optind != argc) {
        std::fputs("usage: quickfix_acceptor [--port N] [--cpu N] [--sessions N] [--target PREFIX] "
                   "[--persist]\n",
                   stderr);
        std::exit(2);
    }
    return options;
}

int run(const Options &options)
{
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ends, nullptr); /* before QuickFIX's thread, which inherits it */
    Filler filler;
    FIX::MemoryStoreFactory stores;
    NoLogFactory logs;
    FIX::SessionSettings settings = settings_of(options);
    FIX::SocketAcceptor acceptor(filler, stores, settings, logs);
    acceptor.start();
    unsigned port = listening_port();
    if (!port) {
        std::fputs("quickfix_acceptor: does not listen\n", stderr);
        return 1;
    }
    std::printf("listening on 127.0.0.1:%u\n", port);
    std::fflush(stdout);
    int signal_number;
    sigwait(&ends, &signal_number);
    acceptor.stop(true);
    return 0;
}

} // namespace

int main(int argc, char **argv)
{
    Options options = take_options(argc, argv);
    if (options.cpu >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(static_cast<std::size_t>(options.cpu), &set);
        if (sched_setaffinity(0, sizeof set, &set) != 0) {
            std::perror("quickfix_acceptor: binding to a CPU");
            return 1;
        }
    }
    try {
        return run(options);
    } catch (const std::exception &problem) {
        std::fprintf(stderr, "quickfix_acceptor: %s\n", problem.what());
        return 1;
    }
}
