#include "cogwheel/serve/view_request.h"

#include <gtest/gtest.h>

#include <string>

#include "cogwheel/core/error.h"

namespace cogwheel::serve {
namespace {

std::string refusal(const std::string& json) {
  try {
    parse_view_request(json);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(ViewRequest, ReadsEveryKey) {
  const ViewRequest request = parse_view_request(
      R"({"run": 1, "text": "a", "second_text": "b", "values": "scores", "compared": "edits", "edits": ["L0H1:zero"],
          "answer": "x", "foil": "y", "head": "L1H0"})");
  EXPECT_EQ(request.run, 1);
  EXPECT_EQ(request.text + request.second_text + request.answer + request.foil + request.head, "abxyL1H0");
  EXPECT_EQ(request.values, ShownValues::scores);
  EXPECT_EQ(request.compared, Compared::edits);
  EXPECT_EQ(request.edits, std::vector<std::string>{"L0H1:zero"});
}

TEST(ViewRequest, SaysWhatIsWrong) {
  EXPECT_EQ(refusal("[]"), "request: expected a JSON object, got something else");
  EXPECT_EQ(refusal(R"({"run": -1})"), "run: expected 0 or 1, got -1");
  EXPECT_EQ(refusal(R"({"edits": {}})"), "edits: expected an array of texts, got object");
  EXPECT_EQ(refusal(R"({"edits": [null]})"), "edits: expected text, got null");
  EXPECT_NE(refusal(R"({"compare": "run"})").find("compared"), std::string::npos);
  EXPECT_NE(refusal(R"({"compared": "runs"})").find("expected run"), std::string::npos);
}

}  // namespace
}  // namespace cogwheel::serve
