#include "cogwheel/cli/forecast/network_speed.h"

#include <ATen/Parallel.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/process/wall_clock.h"
#include "cogwheel/runs/forecast/layout_cost.h"

namespace cogwheel::cli {
namespace {

constexpr std::int64_t smallest = 1 << 10, largest = 64 << 20, times_larger = 4;
constexpr double fewest_turns = 3, most_turns = 1000;

// Of the running system: the same for all of its containers.
std::string name_of_node() {
  try {
    return read_file("/proc/sys/kernel/random/boot_id");
  } catch (const Error&) {
    return "";
  }
}

// Of all threads of this process, in user and system.
double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct SumTime {
  double seconds, work;
};

SumTime time_of_add(const distributed::Ranks& ranks, const at::Tensor& numbers) {
  static_cast<void>(ranks.gathered("", "who is ready"));
  const double work = processor_seconds();
  const auto start = WallClock::now();
  ranks.add({numbers}, "the sum that is timed");
  const double seconds = seconds_since(start);
  return {seconds, processor_seconds() - work};
}

// The least of several, each the slowest rank's.
SumTime least_time_of_add(const distributed::Ranks& ranks, std::int64_t bytes, double seconds) {
  const at::Tensor numbers = at::ones({bytes / static_cast<std::int64_t>(sizeof(float))}, at::kFloat);
  const double first = largest_of_ranks(ranks, {time_of_add(ranks, numbers).seconds}, "times").front();
  std::vector<double> turns, work;
  // The same on every rank.
  for (double left = std::clamp(seconds / first, fewest_turns, most_turns); left >= 1; --left) {
    numbers.fill_(1);  // sums of sums grow
    const SumTime turn = time_of_add(ranks, numbers);
    turns.push_back(turn.seconds), work.push_back(turn.work);
  }
  const auto least = [&](const std::vector<double>& own) {
    const std::vector<double> slowest = largest_of_ranks(ranks, own, "times");
    return *std::min_element(slowest.begin(), slowest.end());
  };
  return {least(turns), least(work)};
}

// What a step has between two exchanges of its layers, for some milliseconds.
class Computation {
 public:
  explicit Computation(const distributed::Ranks& ranks) {
    multiply();  // the first one makes threads and chooses a kernel
    const auto start = WallClock::now();
    for (times_ = 0; times_ < tried; ++times_) multiply();
    const double seconds = largest_of_ranks(ranks, {seconds_since(start)}, "times").front();
    times_ = std::max<std::int64_t>(1, std::llround(tried * wanted_seconds / seconds));
  }
  void run() {
    for (std::int64_t time = 0; time < times_; ++time) multiply();
  }

 private:
  static constexpr std::int64_t tried = 20, width = 192;
  static constexpr double wanted_seconds = 2e-3;

  void multiply() { product_ = at::mm(factor_, factor_); }

  at::Tensor factor_ = at::ones({width, width}, at::kFloat), product_;
  std::int64_t times_ = 0;
};

double median(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers[numbers.size() / 2];
}

// A rank that waits is not always woken at once, and waits for the slowest: of exchanges by the hundred what they take
// in the mean counts, not the least. Medians of several turns, each the slowest rank's.
NetworkSpeed::AfterComputation exchanges_after_computation(const distributed::Ranks& ranks, double seconds) {
  constexpr std::int64_t of_a_turn = 20;
  const std::string what = "the exchange that is timed";
  const distributed::Group& group = ranks.all();
  const at::Tensor own = at::zeros({smallest / ranks.count()}, at::kByte),
                   parts = own.expand({ranks.count(), own.size(0)}).contiguous();
  Computation computation(ranks);
  const auto turn = [&](const auto& exchange) {
    static_cast<void>(ranks.gathered("", "who is ready"));
    const auto start = WallClock::now();
    for (std::int64_t time = 0; time < of_a_turn; ++time) {
      computation.run();
      exchange();
    }
    return largest_of_ranks(ranks, {seconds_since(start)}, "times").front() / of_a_turn;
  };
  std::vector<double> gathers, all_to_alls;
  double spent = 0;  // the same on every rank
  while (static_cast<double>(gathers.size()) < fewest_turns || spent < seconds) {
    const double alone = turn([] {}), gather = turn([&] { group.gather(own, what).result(what); }),
                 all_to_all = turn([&] { group.exchange(parts, what).result(what); });
    gathers.push_back(std::max(0.0, gather - alone));
    all_to_alls.push_back(std::max(0.0, all_to_all - alone));
    spent += of_a_turn * (alone + gather + all_to_all);
  }
  return {.gather = median(std::move(gathers)), .all_to_all = median(std::move(all_to_alls))};
}

}  // namespace

std::vector<double> largest_of_ranks(const distributed::Ranks& ranks, const std::vector<double>& own,
                                     const std::string& what) {
  std::vector<double> all = own;
  for (const std::vector<double>& each : ranks.gathered(own, what))
    for (std::size_t index = 0; index < all.size(); ++index) all[index] = std::max(all[index], each[index]);
  return all;
}

RanksOfNode ranks_of_this_node(const distributed::Ranks& ranks) {
  const std::string name = name_of_node();
  const std::vector<std::string> names = ranks.gathered(name, "where ranks are");
  return {.place = std::count(names.begin(), names.begin() + ranks.rank(), name),
          .count = std::count(names.begin(), names.end(), name),
          .nodes = static_cast<std::int64_t>(std::set(names.begin(), names.end()).size())};
}

NetworkSpeed measure_network(const distributed::Ranks& ranks, double seconds) {
  NetworkSpeed speed{
      .ranks = ranks.count(), .nodes = ranks_of_this_node(ranks).nodes, .threads = at::get_num_threads()};
  for (std::int64_t bytes = smallest; bytes <= largest; bytes *= times_larger) {
    const SumTime least = least_time_of_add(ranks, bytes, seconds);
    speed.sums.push_back({bytes, least.seconds});
    speed.work_seconds = least.work;
  }
  speed.after_computation = exchanges_after_computation(ranks, seconds);
  return speed;
}

runs::Machine NetworkSpeed::machine() const {
  constexpr double unlimited = std::numeric_limits<double>::infinity();
  // By the formula of forecasts, of links that are as fast as can be but for the one that is measured.
  const auto seconds = [&](const Sum& sum, const runs::Link& link) {
    runs::Network network{.ranks_per_node = ranks_per_node(), .within = {0, unlimited}, .between = {0, unlimited}};
    (nodes > 1 ? network.between : network.within) = link;
    return runs::seconds_of_sum(static_cast<double>(sum.bytes), {.ranks = ranks}, network);
  };
  const Sum &least = sums.front(), &most = sums.back();
  const double latency = least.seconds / seconds(least, {1, unlimited});
  // On a busy machine the smallest sum may have taken as long as the largest.
  const double transfer = std::max(most.seconds - latency * seconds(most, {1, unlimited}), most.seconds / 2);
  runs::Link link{.latency = latency,
                  .bandwidth = seconds(most, {0, 1}) / transfer,
                  .work = work_seconds / runs::sent_in_sum(static_cast<double>(most.bytes), ranks)};
  if (after_computation.gather > 0) {
    link.wake_up = std::max(latency, after_computation.gather / static_cast<double>(ranks - 1));
    if (ranks > 2)
      link.spacing = std::max(0.0, (after_computation.all_to_all - *link.wake_up) / static_cast<double>(ranks - 2));
  }
  if (nodes == 1) return {.within_node = link};
  return {.devices_per_node = ranks_per_node(), .between_nodes = link};
}

nlohmann::ordered_json link_json(const runs::Link& link) {
  using Json = nlohmann::ordered_json;
  const auto or_null = [](const std::optional<double>& number) { return number ? Json(*number) : Json(nullptr); };
  return {{"latency", link.latency},
          {"bandwidth", link.bandwidth},
          {"work", link.work},
          {"wake_up", or_null(link.wake_up)},
          {"spacing", or_null(link.spacing)}};
}

std::string NetworkSpeed::json() const {
  nlohmann::ordered_json json{{"ranks", ranks},
                              {"nodes", nodes},
                              {"threads", threads},
                              {"work_seconds", work_seconds},
                              {"gather_after_computation_seconds", after_computation.gather},
                              {"all_to_all_after_computation_seconds", after_computation.all_to_all}};
  for (const Sum& sum : sums) json["sums"].push_back({{"bytes", sum.bytes}, {"seconds", sum.seconds}});
  const runs::Machine found = machine();
  for (const auto& [name, link] : {std::pair("within_node", found.within_node), {"between_nodes", found.between_nodes}})
    if (link) json["network"][name] = link_json(*link);
  return json.dump(2);
}

}  // namespace cogwheel::cli
