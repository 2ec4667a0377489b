// The ranks of this job, where the command runs as one of several processes that train together.
#pragma once
#include <string>

#include "cogwheel/distributed/ranks.h"

namespace cogwheel::cli {

// One, unless set_ranks was called, once, before anything runs.
const distributed::Ranks& ranks();
void set_ranks(const std::string& group, std::int64_t rank, std::int64_t count,
               distributed::Ranks::MakeGroup make_group);

// Collective, before the work that all do together: throws on each what went wrong on one, so that none waits for it.
// `last`: from here on ranks have problems of their own.
void expect_all_ready(bool last = false);

// What this rank says of a problem on stderr; empty: nothing, because another says it. Collective until all are ready.
std::string said_by_this_rank(const std::string& message);

// What went wrong was said by another process; the exit code is all that is left to tell.
class Said : public Error {
 public:
  explicit Said(int exit_code) : Error(""), exit_code_(exit_code) {}
  int exit_code() const noexcept override { return exit_code_; }

 private:
  int exit_code_;
};

// In the environment of ranks that `--ranks` has started: it says itself who was lost. A first rank that has lost
// others then ends with this code, silently.
inline constexpr const char* started_by_us = "COGWHEEL_STARTED_RANKS";
inline constexpr int lost_others = 75;

}  // namespace cogwheel::cli
