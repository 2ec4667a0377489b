// What one head of attention does, in a few numbers: means, over the batch and its queries, of the row statistics of
// `attention_statistics`, and of what the head reads and writes. Queries that see a single key are left out: their
// weight is what the mechanism makes it.
#pragma once
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

namespace cogwheel::nn {

struct HeadStatistics {
  static constexpr double none = std::numeric_limits<double>::quiet_NaN();

  double sink = 0;                   // mean |weight on the first key|
  double negative_mass = 0;          // mean Σ|a| over a < 0
  double entropy = 0;                // mean entropy of |a| / Σ|a|, in nats
  double normalized_entropy = none;  // mean entropy / log n, n the keys that the query sees: 1 for equal |a|
  double kurtosis = none;            // mean of a over the keys, of queries that see 8 and weigh them differently
  double positive_share = none;      // mean share of the keys with a > 0
  // |P − N| / (P + N) with P and N the numbers of positive and negative weights of all queries: 1 where all have one
  // sign
  double sign_consistency = none;
  double sum = 0;         // mean Σ a
  double abs_sum = 0;     // mean Σ |a|
  double value_mean = 0;  // mean over keys and entries of v
  double value_bias = none;  // ‖E[v]‖ / √E‖v‖²: entries that are 0 on average may still have a mean that is not 0
  double output_norm = 0;  // mean ‖o‖, before the layer's norm and output projection

  // Of a difference of two maps; NaN elsewhere.
  double lambda_1 = none, lambda_2 = none, lambda_init = none, lambda_full = none;
};

// [layers][output heads]
using StatisticsOfHeads = std::vector<std::vector<HeadStatistics>>;

struct HeadStatistic {
  std::string_view name;
  double HeadStatistics::*member;
};

inline constexpr std::array<HeadStatistic, 16> head_statistics{{
    {"sink", &HeadStatistics::sink},
    {"negative_mass", &HeadStatistics::negative_mass},
    {"entropy", &HeadStatistics::entropy},
    {"normalized_entropy", &HeadStatistics::normalized_entropy},
    {"kurtosis", &HeadStatistics::kurtosis},
    {"positive_share", &HeadStatistics::positive_share},
    {"sign_consistency", &HeadStatistics::sign_consistency},
    {"sum", &HeadStatistics::sum},
    {"abs_sum", &HeadStatistics::abs_sum},
    {"value_mean", &HeadStatistics::value_mean},
    {"value_bias", &HeadStatistics::value_bias},
    {"output_norm", &HeadStatistics::output_norm},
    {"lambda_1", &HeadStatistics::lambda_1},
    {"lambda_2", &HeadStatistics::lambda_2},
    {"lambda_init", &HeadStatistics::lambda_init},
    {"lambda_full", &HeadStatistics::lambda_full},
}};

// NaN equals NaN: what neither head has is the same.
inline bool operator==(const HeadStatistics& one, const HeadStatistics& other) {
  for (const HeadStatistic& statistic : head_statistics) {
    const double a = one.*statistic.member, b = other.*statistic.member;
    if (!(a == b || (std::isnan(a) && std::isnan(b)))) return false;
  }
  return true;
}

}  // namespace cogwheel::nn
