#include "cogwheel/pages/html.h"

#include <gtest/gtest.h>

namespace cogwheel::pages {
namespace {

TEST(Html, EscapesWhatMarkupWouldRead) {
  EXPECT_EQ(escape_html("<a href=\"x\">'&'</a>"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
  EXPECT_EQ(escape_html("a\u202Eb\u2066c\u200Fd\u2029\xe2\x80"), "a\uFFFDb\uFFFDc\u200Fd\u2029\xe2\x80");
}

TEST(Html, JsonCannotEndItsScript) {
  EXPECT_EQ(escape_script_json("{\"a\":\"</script><!--\"}"), "{\"a\":\"\\u003c/script>\\u003c!--\"}");
}

TEST(Html, TemplatesAreFilledOnce) {
  EXPECT_EQ(fill_template("a {{x}} b {{y}}", [](std::string_view name) { return "{{" + std::string(name) + "}}"; }),
            "a {{x}} b {{y}}");
  EXPECT_EQ(fill_template("{{x}}", [](std::string_view) { return std::string("1"); }), "1");
  EXPECT_EQ(fill_template("none", [](std::string_view) { return std::string("1"); }), "none");
}

TEST(Html, Numbers) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(-1234567), "−1,234,567");
  EXPECT_EQ(fixed(-0.00004, 4), "0.0000");
  EXPECT_EQ(fixed(-0.5, 2), "−0.50");
  EXPECT_EQ(signed_fixed(0.02, 2), "+0.02");
  EXPECT_EQ(signed_fixed(0, 2), "0.00");
  EXPECT_EQ(rounded_count(1536000), "1.54 M");
  EXPECT_EQ(byte_size(8 << 20), "8.0 MiB");
  EXPECT_EQ(byte_size(500), "500 bytes");
  EXPECT_EQ(counted(1, "seed"), "1 seed");
  EXPECT_EQ(date_text("2026-03-12T10:20:30Z"), "12 March 2026");
}

// As axes of charts have them; files and terminals have "8.3e-05".
TEST(Html, SmallNumbersHavePowersOfTen) {
  EXPECT_EQ(with_powers("8.3e-05"), "8.3·10⁻⁵");
  EXPECT_EQ(with_powers("from 1e-30 to -1e+09, or 11e-07."), "from 10⁻³⁰ to -10⁹, or 11·10⁻⁷.");
  for (const char* text : {"", "e-05", "0.5", "1e5", "1e-5", "line-05", "2e-051234", "a3e-05f", "3e-05f", "x.1e-05"})
    EXPECT_EQ(with_powers(text), text);
  EXPECT_EQ(learning_rate_text(3.2e-5), "3.2·10⁻⁵");
  EXPECT_EQ(learning_rate_text(1e-3), "0.001");
  EXPECT_EQ(cell_html("-8.3e-05 ± 1e-06"), "−8.3·10⁻⁵ ± 10⁻⁶");
  EXPECT_EQ(cell_html("<-8.3e-05>"), "&lt;-8.3e-05&gt;");
}

}  // namespace
}  // namespace cogwheel::pages
