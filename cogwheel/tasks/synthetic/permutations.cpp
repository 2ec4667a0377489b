// The word problem of a group of permutations: at every element of a random sequence, the product of those so far. For
// S5 and A5, which are not solvable, it is complete for NC1, beyond what a fixed number of layers without a state can
// compute for every length. Liu, Ash, Goel, Krishnamurthy and Zhang, "Transformers Learn Shortcuts to Automata" (2023);
// Merrill, Petty and Sabharwal, "The Illusion of State in State-Space Models" (2024).
#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "cogwheel/runs/task_entry.h"
#include "cogwheel/runs/task_options.h"
#include "cogwheel/tasks/synthetic/running_task.h"

namespace cogwheel::tasks::synthetic::permutations {
namespace {

const runs::TaskDescription& describe() {
  static const runs::TaskDescription description{
      .name = "permutations",
      .summary = "give the product of the permutations so far, at each of a sequence",
      .item = "permutation",
      .data = "Random permutations, every one of the group as probable.",
      .does_better = "tracks permutations better",
      .do_better = "track permutations better",
      .measures = {
          {.name = "held_out_loss", .title = "held-out loss", .label = "held-out", .unit = "nats per permutation"},
          {.name = "accuracy", .title = "accuracy", .label = "accuracy", .unit = "", .lower_is_better = false}}};
  return description;
}

struct Group {
  const char* name;
  int objects;
  bool even_only;  // the alternating group
};
constexpr std::array<Group, 5> groups{
    {{"S5", 5, false}, {"A5", 5, true}, {"S4", 4, false}, {"A4", 4, true}, {"S3", 3, false}}};

std::vector<std::string> group_names() {
  std::vector<std::string> names;
  for (const Group& group : groups) names.emplace_back(group.name);
  return names;
}

using Permutation = std::vector<int>;  // where each object goes

bool is_even(const Permutation& permutation) {
  int inversions = 0;
  for (std::size_t i = 0; i < permutation.size(); ++i)
    for (std::size_t j = i + 1; j < permutation.size(); ++j) inversions += permutation[i] > permutation[j] ? 1 : 0;
  return inversions % 2 == 0;
}

// In lexicographic order: the identity comes first.
std::vector<Permutation> elements_of(const Group& group) {
  std::vector<Permutation> elements;
  Permutation permutation(static_cast<std::size_t>(group.objects));
  std::iota(permutation.begin(), permutation.end(), 0);
  do
    if (!group.even_only || is_even(permutation)) elements.push_back(permutation);
  while (std::next_permutation(permutation.begin(), permutation.end()));
  return elements;
}

class Permutations : public RunningTask {
 public:
  Permutations(const Group& group, const RunningOptions& running, runs::TaskOptions options)
      : RunningTask(describe(), running, std::move(options)), elements_(elements_of(group)) {
    std::map<Permutation, std::int64_t> number_of;
    for (const Permutation& element : elements_) number_of.emplace(element, std::ssize(number_of));
    for (const Permutation& first : elements_)
      for (const Permutation& second : elements_) {
        Permutation both;
        for (const int place : first) both.push_back(second[static_cast<std::size_t>(place)]);
        products_.push_back(number_of.at(both));
      }
  }

 protected:
  std::int64_t states() const override { return std::ssize(elements_); }
  // Where 1, 2, 3, … go: 21345 exchanges the first two.
  std::string name_of(std::int64_t state) const override {
    std::string digits;
    for (const int place : elements_[static_cast<std::size_t>(state)]) digits += static_cast<char>('1' + place);
    return digits;
  }
  std::shared_ptr<SampledTask> copy() const override { return std::make_shared<Permutations>(*this); }
  std::int64_t next(std::int64_t state, std::int64_t token) const override {
    return products_[static_cast<std::size_t>(state * states() + token)];
  }

 private:
  std::vector<Permutation> elements_;
  std::vector<std::int64_t> products_;  // [first, second]: the second after the first
};

}  // namespace
}  // namespace cogwheel::tasks::synthetic::permutations

namespace cogwheel::tasks::synthetic {
runs::TaskEntry permutations_task() {
  return {.description = permutations::describe(),
          .make = [](const runs::RunConfig& config, const std::filesystem::path&) -> std::shared_ptr<const runs::Task> {
            runs::TaskOptionReader reader(config.task);
            const RunningOptions running = RunningOptions::read(reader);
            const std::string name =
                reader.word("group", permutations::groups.front().name, permutations::group_names());
            const auto* const group = std::find_if(permutations::groups.begin(), permutations::groups.end(),
                                                   [&](const permutations::Group& each) { return each.name == name; });
            return std::make_shared<permutations::Permutations>(*group, running, reader.finish());
          },
          .preset =
              [] {
                return sampled_preset("permutations",
                                      "S5, up to 16 permutations, tested up to 64; 2 layers, 2 heads, width 64",
                                      {{"length", std::int64_t{16}}}, 64, 64, 10000);
              }};
}
}  // namespace cogwheel::tasks::synthetic
