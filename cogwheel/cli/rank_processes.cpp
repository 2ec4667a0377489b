#include "cogwheel/cli/rank_processes.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cogwheel/cli/interrupt.h"
#include "cogwheel/cli/number_option.h"
#include "cogwheel/cli/ranks.h"
#include "cogwheel/core/files/scratch_folder.h"
#include "cogwheel/core/process/environment_python.h"
#include "cogwheel/core/process/memory.h"
#include "cogwheel/core/process/process.h"
#include "cogwheel/ops/bfloat16_products.h"

namespace cogwheel::cli {
namespace fs = std::filesystem;
namespace {

constexpr Range<std::int64_t> rank_range{1, 1024};
// In a Python that has the package.
constexpr const char* run_the_package = R"(
import importlib.util, runpy
if importlib.util.find_spec('cogwheel') is None:
    sys.exit(f'cogwheel: --ranks: expected a Python that has the package cogwheel, got {sys.executable}; COGWHEEL_PYTHON names another')
runpy.run_module('cogwheel', run_name='__main__', alter_sys=True)
)";
constexpr auto others_end_within = std::chrono::seconds(10);

std::vector<std::string>& kept_words() {
  static std::vector<std::string> words;
  return words;
}

// The file of the library that this process has a function of; empty: none.
std::string file_with(const void* function) {
  Dl_info info{};
  return ::dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

// Of a rank, in the environment's Python: the operators of this very build, memory from the allocator of this program.
std::vector<std::string> environment_of(std::int64_t rank, std::int64_t count, std::int64_t threads,
                                        const fs::path& folder) {
  std::vector<std::string> environment{fmt::format("RANK={}", rank),
                                       fmt::format("LOCAL_RANK={}", rank),
                                       fmt::format("WORLD_SIZE={}", count),
                                       fmt::format("COGWHEEL_RENDEZVOUS=file://{}", (folder / "ranks").string()),
                                       fmt::format("{}=1", started_by_us),
                                       "COGWHEEL_PYTHON=" + environment_python(),
                                       "OMP_WAIT_POLICY=passive"};
  const auto add = [&](const char* name, const std::string& value) {
    if (std::getenv(name) == nullptr && !value.empty()) environment.push_back(fmt::format("{}={}", name, value));
  };
  add("OMP_NUM_THREADS", std::to_string(threads));
  add("COGWHEEL_OPERATORS", file_with(reinterpret_cast<const void*>(&ops::bfloat16_products)));
  add("GLOO_SOCKET_IFNAME", "lo");
  if (const void* allocator = ::dlsym(RTLD_DEFAULT, "mi_malloc");
      allocator != nullptr && std::getenv("LD_PRELOAD") == nullptr) {
    add("LD_PRELOAD", file_with(allocator));
    // Of addresses: as allocator.h does for this process.
    const std::int64_t there = physical_memory_bytes() >> 20;
    if (there > 0)
      add("MIMALLOC_RESERVE_OS_MEMORY", fmt::format("{}MiB", std::max<std::int64_t>(1, there / 2 / count)));
  }
  return environment;
}

// Throws what ended the first of them that did not end because of another. `silent`: those that did not end by
// themselves, and were killed.
void expect_ended_well(const std::vector<Finished>& finished, const std::set<std::size_t>& silent) {
  const Finished& first = finished.front();
  if (first.signal == 0 && first.status != 0 && first.status != lost_others) throw Said(first.status);
  for (const bool killed : {false, true})
    for (std::size_t rank = 0; rank < finished.size(); ++rank)
      if (const int signal = finished[rank].signal; signal != 0 && silent.contains(rank) == killed)
        throw Error(expected_got("ranks", fmt::format("all {} to go on", finished.size()),
                                 fmt::format("rank {}, which {}", rank,
                                             killed ? "did not answer" : fmt::format("signal {} has ended", signal))));
  for (const bool lost : {false, true})
    for (const Finished& each : finished)
      if (each.status != 0 && (each.status == lost_others) == lost && !each.output.empty())
        throw Error(last_line(each.output, "cogwheel"));
}

// With the words of this command line. `printed`: what the first of them has written, also where this throws.
void run_ranks(std::int64_t count, std::int64_t threads, std::string& printed) {
  const ScratchFolder folder;
  std::vector<std::string> command = python_running(run_the_package);
  command.insert(command.end(), kept_words().begin(), kept_words().end());
  static_cast<void>(stop_flag());
  std::vector<std::unique_ptr<Process>> processes;
  for (std::int64_t rank = 0; rank < count; ++rank)
    processes.push_back(std::make_unique<Process>(
        command, Process::Options{.environment = environment_of(rank, count, threads, folder.path()),
                                  .errors_in_output = rank > 0,
                                  .errors_shown = rank == 0,
                                  .own_group = true}));
  const auto ended = [](const std::unique_ptr<Process>& each) { return each->has_ended(); };
  bool told = false;
  while (std::none_of(processes.begin(), processes.end(), ended)) {
    if (stop_flag() && !told) {
      for (const auto& each : processes) each->interrupt();
      told = true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const auto since = std::chrono::steady_clock::now();
  while (!std::all_of(processes.begin(), processes.end(), ended) &&
         std::chrono::steady_clock::now() - since < others_end_within)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::set<std::size_t> silent;
  for (std::size_t rank = 0; rank < processes.size(); ++rank)
    if (!processes[rank]->has_ended()) {
      processes[rank]->kill();
      silent.insert(rank);
    }
  std::vector<Finished> finished;
  for (const auto& each : processes) finished.push_back(each->wait());
  printed = finished.front().output;
  expect_ended_well(finished, silent);
}

}  // namespace

std::int64_t threads_of_each(std::int64_t ranks) {
  const std::int64_t here = at::get_num_threads();
  return std::getenv("OMP_NUM_THREADS") != nullptr ? here : std::max<std::int64_t>(1, here / ranks);
}

void add_ranks_option(CLI::App& command, std::int64_t& count, const std::string& what) {
  add_number(command, "--ranks", count, rank_range, "processes on this machine " + what)
      ->default_str("")
      ->type_name("N");
}

void keep_words(int argc, char** argv) { kept_words().assign(argv + std::min(argc, 1), argv + argc); }

bool ran_as_ranks(std::int64_t count) {
  if (count == 0) return false;
  if (ranks().count() > 1 || count == 1) {
    if (count != ranks().count())
      throw UsageError(
          expected_got("--ranks", fmt::format("{}, as were started", ranks().count()), std::to_string(count)));
    return false;
  }
  const std::int64_t threads = threads_of_each(count), cores = std::thread::hardware_concurrency();
  if (count * threads > cores)
    fmt::print(stderr,
               "warning: --ranks: {} processes of {} share {} cores, which is slower than a thread for each core\n",
               count, threads == 1 ? "one thread" : fmt::format("{} threads", threads), cores);
  std::string printed;
  try {
    run_ranks(count, threads, printed);
  } catch (...) {
    fmt::print("{}", printed);
    throw;
  }
  fmt::print("{}", printed);
  return true;
}

std::string output_of_ranks(std::int64_t count, std::int64_t threads) {
  std::string printed;
  run_ranks(count, threads, printed);
  return printed;
}

}  // namespace cogwheel::cli
