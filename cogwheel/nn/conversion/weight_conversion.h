// The weights of a model in another one, which has other mechanisms, key heads or norms.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace cogwheel::nn {

enum class Fate {
  copied,   // bit for bit
  changed,  // made of what the other model has
  created,  // as it was initialised
  lost      // of the other model alone
};

struct ConvertedPart {
  Fate fate;
  std::string name;      // of a parameter, or "layers.0.attention: keys" where a mixer's rows are meant
  std::string how = {};  // of what is changed
  bool operator==(const ConvertedPart&) const = default;
};

// Fills `to`, an initialised model, with what `from` has, and leaves the rest as it is. Models may be of any kind:
//
//   - mixers of one place exchange rows by their roles (nn/token_mixer.h). A head of keys or values becomes the mean of
//     those that its queries read before, so that key heads can become fewer (Ainslie et al., "GQA" (2023), section
//     2.1), and copies where they become more;
//   - rotated queries and keys are rearranged where the layouts of the two differ, so that they do the same;
//   - parameters of one name and shape are copied;
//   - a table of positions keeps its first rows, and has new ones after them;
//   - a head that was the embedding begins as a copy of it.
//
// Throws UsageError for a parameter outside of mixers that has another shape.
std::vector<ConvertedPart> convert_weights(const torch::nn::Module& from, torch::nn::Module& to);

// The same parts of several layers in one line each, "layers.*.attention: keys", with the layers where they are not all
// of `layers`.
std::vector<std::string> lines_of(const std::vector<ConvertedPart>& parts, Fate fate, std::int64_t layers);

}  // namespace cogwheel::nn
