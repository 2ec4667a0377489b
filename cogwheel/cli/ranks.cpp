#include "cogwheel/cli/ranks.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>
#include <vector>

namespace cogwheel::cli {
namespace {

distributed::Ranks& the_ranks() {
  static distributed::Ranks ranks;
  return ranks;
}

bool all_are_ready = false;

// The first problem of any rank, as the first rank says it; empty: none.
std::string problem_of_all(const std::string& own) {
  const std::vector<std::string> all = ranks().gathered(own, "who is ready");
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].empty()) return rank == 0 ? all[rank] : fmt::format("rank {}: {}", rank, all[rank]);
  return {};
}

}  // namespace

const distributed::Ranks& ranks() { return the_ranks(); }

void set_ranks(const std::string& group, std::int64_t rank, std::int64_t count,
               distributed::Ranks::MakeGroup make_group) {
  the_ranks() = distributed::Ranks(group, rank, count, std::move(make_group));
}

void expect_all_ready(bool last) {
  if (ranks().count() == 1) return;
  if (const std::string problem = problem_of_all(""); !problem.empty()) {
    all_are_ready = true;
    if (!ranks().is_first()) throw Said(1);
    throw Error(problem);
  }
  all_are_ready = last;
}

std::string said_by_this_rank(const std::string& message) {
  if (ranks().count() == 1) return message;
  const std::string own =
      ranks().is_first() || message.empty() ? message : fmt::format("rank {}: {}", ranks().rank(), message);
  if (all_are_ready) return own;
  try {
    const std::string problem = problem_of_all(message);
    return ranks().is_first() ? problem : "";
  } catch (const distributed::LostRanks&) {
    return own;
  }
}

}  // namespace cogwheel::cli
