// Names that a mechanism's learnable scalars may not have, because another argument has them.
#pragma once
#include <string_view>

namespace cogwheel::authoring {

// Whether it is an argument of attention in C++, in Python or of an operator, or a part of a layer. Tests compare the
// list with the signatures (tests/python/test_own_mechanism.py) and the layers (tests/cpp/nn/attention_layer_test.cpp).
bool is_argument(std::string_view name);

// `names` are a mechanism's parameters, separated by commas. Throws UsageError for the first that is such a name.
void check_parameter_names(std::string_view mechanism, std::string_view names);

}  // namespace cogwheel::authoring
