#include "cogwheel/cli/entry.h"

#include <c10/util/Exception.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "cogwheel/cli/closed_pipe.h"
#include "cogwheel/cli/command_line.h"
#include "cogwheel/cli/rank_processes.h"
#include "cogwheel/cli/ranks.h"
#include "cogwheel/core/error.h"

namespace {

int fail(const std::string& message, int exit_code) {
  if (cogwheel::cli::wrote_to_closed_pipe()) cogwheel::cli::end_as_of_closed_pipe();
  if (const std::string said = cogwheel::cli::said_by_this_rank(message); !said.empty())
    std::fprintf(stderr, "cogwheel: %s\n", said.c_str());
  return exit_code;
}

// Buffered output may still fail when it is written to a pipe or file.
int finish() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return 0;
  return fail(cogwheel::expected_got("standard output", "something that can be written to", std::strerror(errno)), 1);
}

cogwheel::distributed::Ranks::MakeGroup named_group(CogwheelMakeGroup make_group) {
  return [make_group](std::int64_t size, std::int64_t stride) {
    std::string name(256, '\0');
    make_group(static_cast<int>(size), static_cast<int>(stride), name.data(), static_cast<int>(name.size()));
    name.resize(std::strlen(name.c_str()));
    if (name.empty()) throw cogwheel::Error(cogwheel::expected_got("ranks", "a group of some of them", "none"));
    return name;
  };
}

}  // namespace

int cogwheel_command(int argc, char** argv, const char* group, int rank, int ranks, CogwheelMakeGroup make_group) {
  cogwheel::cli::keep_going_at_closed_pipes();
  // At the limit on file sizes a write must fail with an error instead of a signal.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    if (ranks > 1) cogwheel::cli::set_ranks(group, rank, ranks, named_group(make_group));
    cogwheel::cli::keep_words(argc, argv);
    cogwheel::cli::run_command_line(argc, argv);
  } catch (const cogwheel::distributed::LostRanks& error) {
    const bool told = rank == 0 && std::getenv(cogwheel::cli::started_by_us) != nullptr;
    return told ? cogwheel::cli::lost_others : fail(error.what(), error.exit_code());
  } catch (const cogwheel::Error& error) {
    return fail(error.what(), error.exit_code());
  } catch (const c10::Error& error) {
    return fail(cogwheel::one_line(error.what_without_backtrace()), 1);  // libtorch's messages have several lines
  } catch (const std::bad_alloc&) {
    return fail("memory: expected enough for the job, got none", 1);
  } catch (const std::exception& error) {
    return fail(cogwheel::one_line(error.what()), 1);
  }
  return finish();
}
