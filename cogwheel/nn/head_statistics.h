// What one head of attention does, in a few numbers: means, over the queries and the batch, of the row statistics of
// `attention_statistics` and of what the head reads and writes.
#pragma once
#include <array>
#include <string_view>
#include <vector>

namespace cogwheel {

struct HeadStatistics {
  double sink = 0;           // mean |weight on the first key|
  double negative_mass = 0;  // mean Σ|a| over a < 0
  double entropy = 0;        // mean entropy of |a| / Σ|a|, in nats
  double sum = 0;            // mean Σ a
  double abs_sum = 0;        // mean Σ |a|
  double value_mean = 0;     // mean over keys and entries of v
  double output_norm = 0;    // mean ‖o‖, before the layer's norm and output projection

  bool operator==(const HeadStatistics&) const = default;
};

// [layers][output heads]
using StatisticsOfHeads = std::vector<std::vector<HeadStatistics>>;

struct HeadStatistic {
  std::string_view name;
  double HeadStatistics::*member;
};

inline constexpr std::array<HeadStatistic, 7> head_statistics{{
    {"sink", &HeadStatistics::sink},
    {"negative_mass", &HeadStatistics::negative_mass},
    {"entropy", &HeadStatistics::entropy},
    {"sum", &HeadStatistics::sum},
    {"abs_sum", &HeadStatistics::abs_sum},
    {"value_mean", &HeadStatistics::value_mean},
    {"output_norm", &HeadStatistics::output_norm},
}};

}  // namespace cogwheel
