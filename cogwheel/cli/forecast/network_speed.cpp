#include "cogwheel/cli/forecast/network_speed.h"

#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>
#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

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
  constexpr double least_difference = 1e-9;
  const double latency = least.seconds / seconds(least, {1, unlimited}),
               transfer = most.seconds - latency * seconds(most, {1, unlimited});
  const runs::Link link{.latency = latency,
                        .bandwidth = seconds(most, {0, 1}) / std::max(transfer, least_difference),
                        .work = work_seconds / runs::sent_in_sum(static_cast<double>(most.bytes), ranks)};
  if (nodes == 1) return {.within_node = link};
  return {.devices_per_node = ranks_per_node(), .between_nodes = link};
}

std::string NetworkSpeed::json() const {
  nlohmann::ordered_json json{{"ranks", ranks}, {"nodes", nodes}, {"threads", threads}, {"work_seconds", work_seconds}};
  for (const Sum& sum : sums) json["sums"].push_back({{"bytes", sum.bytes}, {"seconds", sum.seconds}});
  const runs::Machine found = machine();
  for (const auto& [name, link] : {std::pair("within_node", found.within_node), {"between_nodes", found.between_nodes}})
    if (link)
      json["network"][name] = {{"latency", link->latency}, {"bandwidth", link->bandwidth}, {"work", link->work}};
  return json.dump(2);
}

}  // namespace cogwheel::cli
