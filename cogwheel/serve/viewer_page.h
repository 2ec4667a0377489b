// The page of the viewer: one file without outside requests, which asks its server, or holds what it shows.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace cogwheel::serve {

class Viewer;

// What a page begins with.
struct ViewerPage {
  std::string text, second_text;
  std::string command;  // that shows it
  std::string version;  // of Cogwheel
};

// Served: asks its server for views and maps.
std::string served_page(const Viewer& viewer, const ViewerPage& page);

// Written to a file: the text, compared with all that it can be, and maps of every head. Where that is more than
// largest_export, maps of 8 bits instead of 16, then weights alone. Throws UsageError where these are still more.
std::string exported_page(Viewer& viewer, const ViewerPage& page);

inline constexpr std::size_t largest_export = std::size_t{128} << 20;

}  // namespace cogwheel::serve
