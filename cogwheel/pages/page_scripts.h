// The scripts of a page, and the policy that has a browser run these alone and ask for nothing: should any text of a
// page ever be taken for markup, it would run nothing and send nothing.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel::pages {

class PageScripts {
 public:
  void add(std::string_view text);
  bool empty() const { return sources_.empty(); }
  // A <script> element each.
  const std::string& html() const { return html_; }
  // The contents of <meta http-equiv="Content-Security-Policy">. `connect` is what scripts may ask, as "'self'".
  std::string policy(std::string_view connect = "'none'") const;

 private:
  std::string html_;
  std::vector<std::string> sources_;
};

}  // namespace cogwheel::pages
