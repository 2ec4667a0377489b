// Pairs of texts that differ little, whatever their length: what a model makes of their last token tells whether it
// still tells them apart. Barbero et al., "Transformers need glasses! Information over-squashing in language tasks"
// (2024), sections 4 and 5; the questions and lengths are those of the paper of Cog attention, section 3.2, and of its
// release.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace cogwheel::inspect {

struct CollapseTask {
  std::string_view name, question;
  bool zero;  // the second sequence has a 0 in the place of its first 1, else one 1 less
};

inline std::span<const CollapseTask> collapse_tasks() {
  static constexpr CollapseTask tasks[] = {
      {"finding a zero", "Is there a zero in the following sequences?", true},
      {"counting ones", "How many ones are in the following sequences?", false},
  };
  return tasks;
}

// n + 1 ones, and the sequence that is to be told apart from them: 0 and n ones, or n ones.
inline std::pair<std::string, std::string> collapse_texts(const CollapseTask& task, std::size_t n) {
  const std::string question = std::string(task.question) + " ", ones(n, '1');
  return {question + "1" + ones, question + (task.zero ? "0" : "") + ones};
}

}  // namespace cogwheel::inspect
