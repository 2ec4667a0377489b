// Which tensors of a foreign file are which parameters of a model here. One table serves both directions.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cogwheel::interchange {

using Shape = std::vector<std::int64_t>;
using NamedTensors = std::map<std::string, at::Tensor>;

struct TensorPair {
  std::string ours;
  Shape our_shape;
  std::vector<std::string> theirs;  // several: their rows, one after another
  Shape their_shape;                // of each, with as many numbers in the same order
};

class TensorTable {
 public:
  // The name of the architecture, for messages.
  explicit TensorTable(std::string_view architecture) : architecture_(architecture) {}

  // One tensor, the same in both places but perhaps for its shape.
  void add(const std::string& ours, const Shape& our_shape, const std::string& theirs, const Shape& their_shape = {});
  // weight [outputs, inputs] and bias [outputs] of modules; of several of theirs, ours has the rows of all.
  void linear(const std::string& ours, const std::vector<std::string>& theirs, std::int64_t inputs,
              std::int64_t outputs, bool bias = true);
  // weight and bias [width] of a LayerNorm.
  void norm(const std::string& ours, const std::string& theirs, std::int64_t width);

  // A tensor that files may hold a second time, tied to one of the table: never written, and refused where it differs.
  void tied(const std::string& theirs, const std::string& to);
  // The beginning of the names of tensors that the model has no use for.
  void unused(const std::string& beginning) { unused_.push_back(beginning); }
  // How older files end a name.
  void renamed(const std::string& old_ending, const std::string& ending) { renamed_.emplace_back(old_ending, ending); }

  const std::vector<TensorPair>& pairs() const { return pairs_; }

  // Names and shapes of this project, in float32. Throws Error that names `path` and the first tensor that is missing,
  // of another shape or type, not finite, or in nobody's place; `left_out` receives the names of the unused ones.
  NamedTensors to_ours(const NamedTensors& theirs, const std::filesystem::path& path,
                       std::vector<std::string>& left_out) const;
  // The other way; bit for bit what to_ours was given, but for tied and unused tensors. Throws Error that names `path`
  // and a parameter that is missing, or one more, or one of another shape.
  NamedTensors to_theirs(const NamedTensors& ours, const std::filesystem::path& path) const;

 private:
  NamedTensors under_present_names(const NamedTensors& theirs, const std::filesystem::path& path) const;
  void expect_known(const NamedTensors& theirs, const std::filesystem::path& path,
                    std::vector<std::string>& left_out) const;

  std::string architecture_;
  std::vector<TensorPair> pairs_;
  std::vector<std::pair<std::string, std::string>> tied_, renamed_;
  std::vector<std::string> unused_;
};

}  // namespace cogwheel::interchange
