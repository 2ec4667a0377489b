// The file of architectures/template/, compiled into the library.
#pragma once
#include <string_view>

namespace cogwheel::interchange::embedded {

extern const std::string_view modeling_cogwheel;

}  // namespace cogwheel::interchange::embedded
