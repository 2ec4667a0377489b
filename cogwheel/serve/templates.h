// The files of template/, compiled into the library.
#pragma once
#include <string_view>

namespace cogwheel::serve::embedded {

extern const std::string_view view_html, view_css, view_js, view_page_js, source_js, lines_js, pictures_js;

}  // namespace cogwheel::serve::embedded
