#include "cogwheel/cli/verbs/bench_network.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cogwheel/cli/forecast/network_speed.h"
#include "cogwheel/cli/number_option.h"
#include "cogwheel/cli/rank_processes.h"
#include "cogwheel/cli/ranks.h"
#include "cogwheel/compare/record/machine.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/pages/exhibits.h"
#include "cogwheel/pages/html.h"

namespace cogwheel::cli {
namespace {

struct NetworkArguments {
  std::int64_t ranks = 0;
  double seconds = 1;
  std::string out;
  bool json = false;
};

// What a file for `--machine` has.
std::string file_text(const NetworkSpeed& speed) {
  return fmt::format("# Exchanges of {} ranks on {}, by `cogwheel bench network`; {}\n{}", speed.ranks,
                     pages::counted(speed.nodes, "node"), compare::this_machine().cpu,
                     runs::network_toml(speed.machine()));
}

void print_speed(const NetworkSpeed& speed) {
  fmt::print("{} on {}, {} each; {}\n\n", pages::counted(speed.ranks, "rank"), pages::counted(speed.nodes, "node"),
             pages::counted(speed.threads, "thread"), compare::this_machine().cpu);
  pages::TextTable table{.title = {}, .columns = {"a sum of", "takes", "of its bytes a second"}, .rows = {}};
  for (const NetworkSpeed::Sum& sum : speed.sums)
    table.rows.push_back({pages::byte_size(sum.bytes), fmt::format("{:.3g} ms", 1e3 * sum.seconds),
                          fmt::format("{:.4g} MB", 1e-6 * static_cast<double>(sum.bytes) / sum.seconds)});
  fmt::print("{}\nafter a computation a gather of {} takes {:.3g} ms, an all-to-all {:.3g} ms\n\n{}",
             pages::table_text(table), pages::byte_size(speed.sums.front().bytes), 1e3 * speed.after_computation.gather,
             1e3 * speed.after_computation.all_to_all, runs::network_toml(speed.machine()));
}

void bench_network(const NetworkArguments& arguments) {
  if (arguments.ranks <= 1 && ranks().count() == 1)
    throw UsageError(expected_got("--ranks", "2 or more, unless a launcher has started them",
                                  arguments.ranks == 0 ? "none" : std::to_string(arguments.ranks)));
  if (ran_as_ranks(arguments.ranks)) return;
  if (ranks().is_first() && !arguments.out.empty()) expect_writable(arguments.out);
  expect_all_ready(/*last=*/true);
  const NetworkSpeed speed = measure_network(ranks(), arguments.seconds);
  if (!ranks().is_first()) return;
  if (arguments.json)
    fmt::print("{}\n", speed.json());
  else
    print_speed(speed);
  if (!arguments.out.empty()) write_file(arguments.out, file_text(speed));
}

}  // namespace

void add_bench_network_command(CLI::App& bench) {
  const auto arguments = std::make_shared<NetworkArguments>();
  CLI::App* command =
      bench.add_subcommand("network", "Time what ranks exchange, here or as a launcher has started them");
  add_ranks_option(*command, arguments->ranks, "that exchange");
  constexpr Range<double> seconds_range{.min = 0, .max = 3600};
  add_number(*command, "--seconds", arguments->seconds, seconds_range,
             "for each size, and for exchanges after computations")
      ->default_str("1");
  command->add_option("--out", arguments->out, "a file for `train --dry-run --machine`")->type_name("FILE");
  command->add_flag("--json", arguments->json, "as JSON");
  command->callback([arguments] { bench_network(*arguments); });
}

}  // namespace cogwheel::cli
