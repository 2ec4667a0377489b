#include "cogwheel/interpret/head_edits.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "cogwheel/core/error.h"

namespace cogwheel::interpret {
namespace {

TEST(HeadEdits, NamesOfHeads) {
  constexpr std::array<std::int64_t, 3> heads{2, 4, 12};
  const HeadPlace place = parse_head_name("L2H11", heads, "head");
  EXPECT_EQ(place.layer, 2);
  EXPECT_EQ(place.head, 11);
  for (const char* other : {"L3H0", "L0H2", "L-1H0", "L0H-1", "L0", "H0", "L0H", "LH", "L0H0 ", " L0H0", "l0h0",
                            "L0x1H0", "", "L0H99999999999999999999"})
    try {
      parse_head_name(other, heads, "head");
      FAIL() << other;
    } catch (const UsageError& error) {
      EXPECT_EQ(std::string(error.what()).rfind("head: expected L0H0 to L2H11, got ", 0), 0) << error.what();
    }
}

TEST(HeadEdits, RefusesWhatTheModelLacks) {
  nn::Hooks hooks;
  const HeadOutputs own{at::zeros({1, 3, 2, 4})}, shorter{at::zeros({1, 2, 2, 4})};
  const auto refused = [&](const HeadEdit& edit, const HeadOutputs& other) {
    EXPECT_THROW(edit_heads(hooks, std::array{edit}, own, other), UsageError);
  };
  refused({.layer = 1, .head = 0, .kind = HeadEditKind::zero}, {});
  refused({.layer = 0, .head = 2, .kind = HeadEditKind::zero}, {});
  refused({.layer = 0, .head = 0, .kind = HeadEditKind::patch}, {});
  refused({.layer = 0, .head = 0, .kind = HeadEditKind::patch}, shorter);
  EXPECT_THROW(head_edit_kind("ablate", "edit"), UsageError);
}

}  // namespace
}  // namespace cogwheel::interpret
