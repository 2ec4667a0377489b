// Numbers as a card shows them: 1e4, 3e-8, NaN.
#pragma once
#include <string>

namespace cogwheel::authoring {

std::string exact_text(double value);   // six digits
std::string number_text(double value);  // three, of a weight or a sum
std::string error_text(double value);   // one, of an error: more would be noise of the random inputs

}  // namespace cogwheel::authoring
