// Which tensors of a foreign file are which parameters of a model here. One table serves both directions.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cogwheel/interchange/tensor_layout.h"

namespace at {
class Tensor;
}

namespace cogwheel::interchange {

class ForeignWeights;

using NamedTensors = std::map<std::string, at::Tensor>;

// A module of theirs whose rows are some of ours.
struct RowsOf {
  std::string module;
  std::int64_t rows;
  Order order = {};  // of weight and bias
};

enum class Bias {
  both,
  none,
  theirs,  // theirs alone, all zeros
};

struct LinearLayout {
  Bias bias = Bias::both;
  bool transposed = false;  // weights of theirs are [inputs, outputs]
  Order columns = {};
  std::string gain = {};  // see gain()
};

// A tensor as theirs have it, made when it is asked for.
struct OutgoingTensor {
  std::string name;
  Shape shape;
  std::function<at::Tensor()> numbers;  // float32, contiguous
};

class TensorTable {
 public:
  // The name of the architecture, for messages.
  explicit TensorTable(std::string_view architecture) : architecture_(architecture) {}

  // One tensor, the same in both places but perhaps for its shape and the order of its rows.
  void add(const std::string& ours, const Shape& our_shape, const std::string& theirs, const Shape& their_shape = {},
           const Order& order = {});
  // weight [outputs, inputs] and bias [outputs] of modules; of several of theirs, ours has the rows of all.
  void linear(const std::string& ours, const std::vector<RowsOf>& theirs, std::int64_t inputs,
              const LinearLayout& layout = {});
  // The same of modules of theirs that have equally many rows.
  void linear(const std::string& ours, const std::vector<std::string>& theirs, std::int64_t inputs,
              std::int64_t outputs, const LinearLayout& layout = {});
  // weight and bias [width] of a LayerNorm, or an RMSNorm with Bias::none.
  void norm(const std::string& ours, const std::string& theirs, std::int64_t width, Bias bias = Bias::both);
  // A tensor that ours alone have: `value` everywhere, and refused where a model to be written has others.
  void ours_alone(const std::string& ours, const Shape& shape, double value);
  // A tensor that theirs alone have: `value` everywhere, and refused where a model to be read has others.
  void theirs_alone(const std::string& theirs, const Shape& shape, double value);
  // A vector of ours by which the columns of a linear map are multiplied, again and again along the inputs. Theirs have
  // none: it is folded into the weights of the maps that name it as their gain, and is 1 where a model is read.
  void gain(const std::string& ours, std::int64_t width);

  // A tensor that files may hold a second time, tied to one of the table: never written, and refused where it differs.
  void tied(const std::string& theirs, const std::string& to);
  // The beginning, or the end, of the names of tensors that the model has no use for.
  void unused(const std::string& beginning) { unused_.push_back(beginning); }
  void unused_ending(const std::string& ending) { unused_endings_.push_back(ending); }
  // How older files end a name.
  void renamed(const std::string& old_ending, const std::string& ending) { renamed_.emplace_back(old_ending, ending); }
  // How names begin, but for files of a model without its head.
  void may_lack_beginning(const std::string& beginning) { optional_beginning_ = beginning; }

  const std::vector<TensorPair>& pairs() const { return pairs_; }

  // Names and shapes of this project, in float32, read one after the other. Throws Error that names the file and the
  // first tensor that is missing, of another shape or type, not finite, or in nobody's place; `left_out` receives the
  // names of the unused ones. Nothing is read before names, shapes and types are found right.
  NamedTensors to_ours(const ForeignWeights& theirs, std::vector<std::string>& left_out) const;
  // The other way, in the order of the table; where no gain is folded, bit for bit what to_ours was given, but for tied
  // and unused tensors. Throws Error that names `path` and a parameter that is missing, or one more, of another shape,
  // or of numbers that theirs cannot have.
  std::vector<OutgoingTensor> to_theirs(const NamedTensors& ours, const std::filesystem::path& path) const;

 private:
  struct Constant {
    std::string name;
    Shape shape;
    double value;
  };
  using ForeignTensors = std::map<std::string, ForeignTensor>;

  void add(TensorPair pair);
  std::set<std::string> names_of_theirs() const;
  ForeignTensors under_present_names(const ForeignWeights& theirs) const;
  void expect_layout(const ForeignTensors& theirs, const std::filesystem::path& path,
                     std::vector<std::string>& left_out) const;
  void expect_ours(const NamedTensors& ours, const std::filesystem::path& path) const;

  std::string architecture_;
  std::vector<TensorPair> pairs_;
  std::vector<Constant> ours_alone_, theirs_alone_;
  std::map<std::string, std::int64_t> gains_;
  std::vector<std::pair<std::string, std::string>> tied_, renamed_;
  std::vector<std::string> unused_, unused_endings_;
  std::string optional_beginning_;
};

}  // namespace cogwheel::interchange
