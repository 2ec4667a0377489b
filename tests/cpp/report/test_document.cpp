#include "cogwheel/report/document.h"

#include <gtest/gtest.h>

namespace cogwheel {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

const Document document{
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
  const std::string page = document_page(document);
  EXPECT_EQ(count(page, "<b>a network"), 0);
  EXPECT_EQ(count(page, "<i>"), 0);
  EXPECT_EQ(count(page, "a &lt; b"), 1);
  EXPECT_EQ(count(page, "At d = 500 &amp; more"), 1);
  EXPECT_EQ(count(page, "<svg id=\"chart\">"), 1);
  EXPECT_EQ(count(page, "{{"), 0);
}

TEST(Document, IsOneFileWithoutScript) {
  const std::string page = document_page(document);
  EXPECT_EQ(count(page, "<script"), 0);
  EXPECT_EQ(count(page, "http"), 0);
  EXPECT_EQ(count(page, "href=\"#section-1\""), 1);
  EXPECT_EQ(count(page, "id=\"section-1\""), 1);
  EXPECT_EQ(count(page, "cogwheel reproduce s2/hopfield"), 1);
}

TEST(Document, NumbersStandAtTheRight) {
  const std::string page = document_page(document);
  EXPECT_EQ(count(page, "<td class=\"right num\">0.50 ± 0.02</td>"), 1);
  EXPECT_EQ(count(page, "<th scope=\"col\" class=\"right\">recalled</th>"), 1);
  EXPECT_EQ(count(page, "<th scope=\"col\">remark</th>"), 1);
}

}  // namespace
}  // namespace cogwheel
