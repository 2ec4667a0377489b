// Styles of the report, confined to a part that stands in a notebook.
#include "cogwheel/pages/scoped_style.h"

#include <gtest/gtest.h>

namespace cogwheel::pages {
namespace {

constexpr const char* html = "<p class=\"lead wide\">text</p><table><tr><td>1</td></tr></table>";

TEST(ScopedStyle, KeepsWhatCanMatchAndConfinesIt) {
  EXPECT_EQ(scoped_style("p { margin: 0; } h1 { margin: 0; }", html), ".cogwheel.cogwheel p { margin: 0; }\n");
  EXPECT_EQ(scoped_style(".lead, .leader, p.wide td:not(.x, .y) { top: 0; }", html),
            ".cogwheel.cogwheel .lead, .cogwheel.cogwheel p.wide td:not(.x, .y) { top: 0; }\n");
  EXPECT_EQ(scoped_style("#lead p { top: 0; } /* p { left: 0; } */ section { top: 0; }", html), "");
  EXPECT_EQ(scoped_style("canvas { top: 0; }", std::string(html) + "element(\"canvas\")"),
            ".cogwheel.cogwheel canvas { top: 0; }\n");
}

TEST(ScopedStyle, TheRootIsThePart) {
  EXPECT_EQ(scoped_style(":root { --a: 1; } body { color: red; } html { top: 0; }", html),
            ".cogwheel.cogwheel { --a: 1; }\n.cogwheel.cogwheel { color: red; }\n");
}

TEST(ScopedStyle, LengthsAreOfThePart) {
  EXPECT_EQ(scoped_style("p { padding: -.5rem 2rem 1.2em; width: clamp(1rem, 4vw, 3px); font: x2rem; }", html),
            ".cogwheel.cogwheel p { padding: -7.5px 30px 1.2em; width: clamp(15px, 4cqi, 3px); font: x2rem; }\n");
  EXPECT_EQ(scoped_style("@media screen and (max-width: 40rem) { p { top: 0; } h1 { top: 0; } }", html),
            "@container (max-width: 600px) {\n.cogwheel.cogwheel p { top: 0; }\n}\n");
  EXPECT_EQ(scoped_style("@media print { p { top: 0; } } @page { margin: 0; }", html), "");
}

TEST(ScopedStyle, TheSchemeIsTheNotebooks) {
  const std::string style = scoped_style(
      "@media (prefers-color-scheme: dark) { :root:not([data-theme=\"light\"]) { --paper: #000; } }", html);
  EXPECT_NE(style.find("[data-jp-theme-light=\"false\"]"), std::string::npos) << style;
  EXPECT_NE(style.find(".vscode-dark"), std::string::npos) << style;
  const std::size_t media = style.find("@media (prefers-color-scheme: dark)");
  ASSERT_NE(media, std::string::npos) << style;
  EXPECT_NE(style.find("--paper: #000;"), std::string::npos);
  EXPECT_NE(style.find("--paper: #000;", media), std::string::npos);
}

}  // namespace
}  // namespace cogwheel::pages
