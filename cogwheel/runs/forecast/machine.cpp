#include "cogwheel/runs/forecast/machine.h"

#include <fmt/format.h>

#include <algorithm>

#include "cogwheel/core/error.h"
#include "cogwheel/core/range.h"
#include "cogwheel/runs/configuration/strict_table.h"
#include "cogwheel/runs/configuration/toml_text.h"

namespace cogwheel::runs {
namespace {

constexpr Range<std::int64_t> node_range{1, 4096};
constexpr Range<double> share_range{.min = 0, .max = 1, .min_excluded = true};
constexpr Range<double> latency_range{.min = 0, .max = 10}, work_range{.min = 0, .max = 1};
// From a microcontroller's to more than a rack's.
constexpr Range<double> flops_range{1e6, 1e18}, bytes_range{1e3, 1e18};

double required(StrictTable& table, std::string_view key, const Range<double>& range) {
  const std::optional<double> number = table.number(key, range);
  if (!number) throw UsageError(expected_got(table.what(key), "a number from " + range.text(), "none"));
  return *number;
}

Device device_of(const toml::table& given, const std::string& what) {
  StrictTable table(given, what);
  const Device device{.flops_per_second = required(table, "flops_per_second", flops_range),
                      .achieved = required(table, "achieved", share_range),
                      .memory = required(table, "memory", bytes_range),
                      .memory_bandwidth = required(table, "memory_bandwidth", bytes_range)};
  table.finish();
  return device;
}

std::optional<Link> link_of(const toml::table* given, const std::string& what) {
  if (given == nullptr) return std::nullopt;
  StrictTable table(*given, what);
  const Link link{.latency = required(table, "latency", latency_range),
                  .bandwidth = required(table, "bandwidth", bytes_range),
                  .work = table.number("work", work_range).value_or(0),
                  .wake_up = table.number("wake_up", latency_range),
                  .spacing = table.number("spacing", latency_range)};
  table.finish();
  return link;
}

constexpr const char *within_key = "within_node", *between_key = "between_nodes";

// As exact as a measurement is.
std::string link_toml(const char* key, const std::optional<Link>& link) {
  if (!link) return {};
  std::string text = fmt::format(
      "[network.{}]\nlatency = {:.4g}  # seconds\nbandwidth = {:.4g}  # bytes a second\nwork = {:.4g}  # seconds of a "
      "rank's processors for a byte that it sends\n",
      key, link->latency, link->bandwidth, link->work);
  if (link->wake_up) text += fmt::format("wake_up = {:.4g}  # seconds: latency after a computation\n", *link->wake_up);
  if (link->spacing)
    text += fmt::format("spacing = {:.4g}  # seconds between messages of a rank to all others\n", *link->spacing);
  return text;
}

}  // namespace

Machine parse_machine(std::string_view toml, const std::string& what) {
  const toml::table file = parse_toml(toml, what);
  StrictTable table(file, what);
  Machine machine;
  machine.name = table.text("name").value_or("");
  machine.devices_per_node = table.whole("devices_per_node", node_range).value_or(0);
  if (const toml::table* device = table.table("device")) machine.device = device_of(*device, table.what("device"));
  if (const toml::table* network = table.table("network")) {
    StrictTable links(*network, table.what("network"));
    machine.within_node = link_of(links.table(within_key), links.what(within_key));
    machine.between_nodes = link_of(links.table(between_key), links.what(between_key));
    links.finish();
  }
  table.finish();
  return machine;
}

Network network_of(const Machine& machine, std::int64_t ranks, const std::string& what) {
  Network network{.ranks_per_node = machine.devices_per_node};
  if (network.ranks_per_node == 0) {
    if (machine.within_node && machine.between_nodes)
      throw UsageError(expected_got(what + ": devices_per_node", "a number beside two kinds of links", "none"));
    network.ranks_per_node = machine.between_nodes ? 1 : ranks;
  }
  network.ranks_per_node = std::min(network.ranks_per_node, ranks);
  const auto expect = [&](bool needed, const std::optional<Link>& link, const char* key) {
    if (needed && !link)
      throw UsageError(expected_got(what + ": network." + key,
                                    "latency and bandwidth, for " + std::to_string(ranks) + " ranks on nodes of " +
                                        std::to_string(network.ranks_per_node),
                                    "none"));
  };
  expect(network.ranks_per_node > 1, machine.within_node, within_key);
  expect(network.ranks_per_node < ranks, machine.between_nodes, between_key);
  network.within = machine.within_node.value_or(Link{});
  network.between = machine.between_nodes.value_or(Link{});
  return network;
}

std::string network_toml(const Machine& machine) {
  return (machine.devices_per_node > 0 ? fmt::format("devices_per_node = {}\n\n", machine.devices_per_node) : "") +
         link_toml(within_key, machine.within_node) + link_toml(between_key, machine.between_nodes);
}

}  // namespace cogwheel::runs
