#include "cogwheel/text/byte_pairs/character_classes.h"

#include <algorithm>

namespace cogwheel::text {
namespace {

struct CharacterRange {
  CharacterClass of;
  char32_t first, last;
};

#define COGWHEEL_UNICODE(version) constexpr std::string_view unicode_of_ranges = version;
#define COGWHEEL_RANGE(name, first, last)
#include "cogwheel/text/byte_pairs/character_ranges.inc"
#undef COGWHEEL_UNICODE
#undef COGWHEEL_RANGE

#define COGWHEEL_UNICODE(version)
#define COGWHEEL_RANGE(name, first, last) {CharacterClass::name, first, last},
constexpr CharacterRange character_ranges[] = {
#include "cogwheel/text/byte_pairs/character_ranges.inc"
};
#undef COGWHEEL_UNICODE
#undef COGWHEEL_RANGE

}  // namespace

CharacterClasses::CharacterClasses() {
  std::vector<CharacterClass> all(0x110000, CharacterClass::other);
  for (const CharacterRange& range : character_ranges)
    std::fill(all.begin() + range.first, all.begin() + range.last + 1, range.of);
  std::copy_n(all.begin(), ascii_.size(), ascii_.begin());
  // Most blocks are like the one before them.
  for (std::size_t block = 0; block < blocks_of_.size(); ++block) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(256 * block);
    if (block == 0 || !std::equal(begin, begin + 256, begin - 256)) blocks_.insert(blocks_.end(), begin, begin + 256);
    blocks_of_[block] = static_cast<std::uint32_t>(blocks_.size() - 256);
  }
}

const CharacterClasses& character_classes() {
  static const CharacterClasses classes;
  return classes;
}

std::string_view character_classes_unicode() { return unicode_of_ranges; }

}  // namespace cogwheel::text
