// Names that a mechanism's learnable scalars may not have, because something beside them has those names.
#pragma once
#include <string_view>

namespace cogwheel {

// Whether it is an argument of attention in C++, in Python or of an operator, or a part of a layer. Tests hold the list
// against the signatures (tests/python/test_own_mechanism.py) and the layers (tests/cpp/nn/attention_layer_test.cpp).
bool is_argument(std::string_view name);

// `names`, separated by commas, of a mechanism's parameters. Throws UsageError for the first that is such a name.
void check_parameter_names(std::string_view mechanism, std::string_view names);

}  // namespace cogwheel
