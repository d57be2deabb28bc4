// Work that several threads share.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <future>
#include <system_error>
#include <vector>

namespace dbanon {

// Blocks all signals in this thread while it exists, and in threads that are started meanwhile: a server's
// backend handles signals in its main thread.
class SignalBlock {
   public:
    SignalBlock() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, &previous_);
    }
    ~SignalBlock() { pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }
    SignalBlock(const SignalBlock&) = delete;
    SignalBlock& operator=(const SignalBlock&) = delete;

   private:
    sigset_t previous_;
};

// Calls part(0) to part(n - 1) at once, part(0) in this thread, and waits for all. An exception of any part is
// thrown here, once all have ended. Where the system starts no more threads, this one does the work.
template <class Part>
void run_at_once(int n, const Part& part) {
    std::vector<std::future<void>> others;
    int n_started = 1;
    try {
        const SignalBlock block;
        for (; n_started < n; ++n_started) {
            others.push_back(std::async(std::launch::async, [&part, i = n_started] { part(i); }));
        }
    } catch (const std::system_error&) {
    }
    part(0);
    for (int i = n_started; i < n; ++i) part(i);
    for (std::future<void>& other : others) other.get();
}

}  // namespace dbanon
