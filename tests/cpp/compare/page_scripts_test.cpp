#include "cogwheel/pages/page_scripts.h"

#include <gtest/gtest.h>

#include "cogwheel/compare/report/page.h"
#include "cogwheel/pages/document.h"
#include "compare/example_comparison.h"
#include "support/count_of.h"

namespace cogwheel::compare {
namespace {

TEST(PageScripts, OnlyTheirOwnTextMayRun) {
  pages::PageScripts scripts;
  EXPECT_EQ(count_of(scripts.policy(), "script-src 'none'"), 1U);
  scripts.add("alert('hello')");
  // The hash is that of openssl dgst -sha256 -binary | base64.
  EXPECT_EQ(scripts.policy("'self'"),
            "default-src 'none'; style-src 'unsafe-inline'; script-src "
            "'sha256-vIsp2avtxDy0157AryO+jEJVpLdmka7PI7o7C4q5ABE='; img-src data: blob:; connect-src 'self'; "
            "base-uri 'none'; form-action 'none'");
  EXPECT_EQ(scripts.html(), "<script>alert('hello')</script>\n");
}

TEST(PageScripts, EveryPageHasAPolicy) {
  const std::string report = report_page(example_comparison(), example_inspections());
  EXPECT_EQ(count_of(report, "http-equiv=\"Content-Security-Policy\""), 1U);
  EXPECT_EQ(count_of(report, "'sha256-"), 2U);
  EXPECT_EQ(count_of(report, "script-src 'unsafe-inline'"), 0U);
  const std::string document = pages::document_page({.title = "a", .kind = "b", .created = "c", .verdict = "d"});
  EXPECT_EQ(count_of(document, "script-src 'none'"), 1U);
}

}  // namespace
}  // namespace cogwheel::compare
