// What a model's mechanism is called in a comparison.
#pragma once
#include <string>

namespace cogwheel::nn {

struct MechanismText {
  std::string title, formula;
  std::string definition;  // of a user's own mechanism (authoring.h); empty for a built-in one
};

}  // namespace cogwheel::nn
