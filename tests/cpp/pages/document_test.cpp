#include "cogwheel/pages/document.h"

#include <gtest/gtest.h>

#include "support/count_of.h"

namespace cogwheel::pages {
namespace {

const Document example_page{
    .title = "Memory of <b>a network</b>",
    .kind = "Cogwheel experiment",
    .created = "2026-11-22T10:00:00Z",
    .verdict = "Half of the patterns are recalled.",
    .facts = {{"Patterns", "69", "0.138 d"}},
    .sections = {{.title = "Result",
                  .lead = "At d = 500 & more",
                  .tables = {{"", {"d", "recalled", "remark"}, {{"500", "0.93", "<i>"}, {"1,000", "0.50 ± 0.02", ""}}}},
                  .figures = {{"Recalled", "<svg id=\"chart\"></svg>", "a < b"}},
                  .remarks = {{"One trap.", "The diagonal."}}},
                 {.title = "Method"}},
    .command = "cogwheel reproduce s2/hopfield",
    .written_by = "cogwheel reproduce",
    .version = "1.2.3"};

TEST(Document, EscapesTextAndKeepsFigures) {
  const std::string page = document_page(example_page);
  EXPECT_EQ(count_of(page, "<b>a network"), 0);
  EXPECT_EQ(count_of(page, "<i>"), 0);
  EXPECT_EQ(count_of(page, "a &lt; b"), 1);
  EXPECT_EQ(count_of(page, "At d = 500 &amp; more"), 1);
  EXPECT_EQ(count_of(page, "<svg id=\"chart\">"), 1);
  EXPECT_EQ(count_of(page, "{{"), 0);
}

TEST(Document, IsOneFileWithoutScript) {
  const std::string page = document_page(example_page);
  EXPECT_EQ(count_of(page, "<script"), 0);
  EXPECT_EQ(count_of(page, "http://") + count_of(page, "https://"), 0);
  EXPECT_EQ(count_of(page, "href=\"#section-1\""), 1);
  EXPECT_EQ(count_of(page, "id=\"section-1\""), 1);
  EXPECT_EQ(count_of(page, "cogwheel reproduce s2/hopfield"), 1);
}

TEST(Document, NumbersStandAtTheRight) {
  const std::string page = document_page(example_page);
  EXPECT_EQ(count_of(page, "<td class=\"right num\">0.50 ± 0.02</td>"), 1);
  EXPECT_EQ(count_of(page, "<th scope=\"col\" class=\"right\">recalled</th>"), 1);
  EXPECT_EQ(count_of(page, "<th scope=\"col\">remark</th>"), 1);
}

}  // namespace
}  // namespace cogwheel::pages
