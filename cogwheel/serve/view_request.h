// What a page asks the viewer for.
#pragma once
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel::serve {

// Numbers of a pair of tokens.
enum class ShownValues {
  weights,
  weighted,  // |a| · ‖v‖
  scores
};
// What is subtracted from what is shown: nothing, the other run, the second text, or the pass without edits.
enum class Compared { none, run, text, edits };

std::vector<std::string> shown_values_names();
std::vector<std::string> compared_names();

struct ViewRequest {
  std::size_t run = 0;
  std::string text, second_text;  // the second to compare with, and to patch heads from
  ShownValues values = ShownValues::weights;
  Compared compared = Compared::none;
  std::vector<std::string> edits;  // "L9H4:zero"
  std::string answer, foil;        // whose logits are subtracted; both empty for none
  std::string head;                // of the large map
};

// Throws UsageError that names the key which is unknown, of another type, or has another value.
ViewRequest parse_view_request(std::string_view json);

}  // namespace cogwheel::serve
