#include "cogwheel/text/sentencepiece/sentencepiece_model_check.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace cogwheel::text {
namespace {

// The fields of a message of protocol buffers, one after another.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : rest_(bytes) {}

  // False at the end, and where the bytes are no message: then `damaged`.
  bool next() {
    if (rest_.empty() || damaged) return false;
    const std::uint64_t key = varint();
    number = key >> 3;
    switch (key & 7) {
      case 0:
        value = varint();
        break;
      case 1:
        value = fixed(8);
        break;
      case 2:
        text = bytes(varint());
        break;
      case 5:
        value = fixed(4);
        break;
      default:
        damaged = true;
    }
    kind = static_cast<int>(key & 7);
    damaged = damaged || number == 0;
    return !damaged;
  }

  std::uint64_t number = 0, value = 0;
  std::string_view text;
  int kind = 0;
  bool damaged = false;

 private:
  std::uint64_t varint() {
    std::uint64_t all = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) break;
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      all |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return all;
    }
    damaged = true;
    return 0;
  }
  std::string_view bytes(std::uint64_t count) {
    if (count > rest_.size()) {
      damaged = true;
      return {};
    }
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  std::uint64_t fixed(std::size_t count) {
    const std::string_view taken = bytes(count);
    std::uint64_t all = 0;
    if (!damaged) std::memcpy(&all, taken.data(), taken.size());
    return all;
  }

  std::string_view rest_;
};

constexpr int bytes_kind = 2, float_kind = 5, number_kind = 0;

// The table of the normalizer: the size of a double array (Aoe, 1989; as darts-clone lays it out), the array, and texts
// ended by NUL, into which it points.
std::string table_problem(std::string_view table) {
  if (table.empty()) return "";
  std::uint32_t size = 0;
  if (table.size() < 4) return "a normalizer cut off";
  std::memcpy(&size, table.data(), 4);
  const std::string_view array = table.substr(4, size),
                         texts = table.substr(std::min<std::size_t>(table.size(), 4 + std::size_t{size}));
  if (array.size() != size || size % 1024 != 0 || size == 0) return "a normalizer cut off";
  if (texts.empty() || texts.back() != '\0') return "a normalizer without texts";
  const std::uint32_t units = size / 4;
  const auto unit_at = [&](std::uint32_t index) {
    std::uint32_t unit = 0;
    std::memcpy(&unit, array.data() + std::size_t{4} * index, 4);
    return unit;
  };
  // A unit is a value, by its highest bit, or says where its children are; bit 8: the first of them is read as a value.
  for (std::uint32_t index = 0; index < units; ++index) {
    const std::uint32_t unit = unit_at(index);
    if (unit >> 31 != 0) continue;
    const std::uint32_t children = index ^ (unit >> 10) << ((unit & 0x200U) >> 6);
    if (children >= units) return "a normalizer that points beyond its table";
    if ((unit & 0x100U) != 0 && (unit_at(children) & 0x7fffffffU) >= texts.size())
      return "a normalizer that points beyond its texts";
  }
  return "";
}

std::string normalizer_problem(std::string_view message) {
  Fields fields(message);
  while (fields.next())
    if (fields.number == 2)
      if (const std::string problem = fields.kind == bytes_kind ? table_problem(fields.text) : "a damaged normalizer";
          !problem.empty())
        return problem;
  return fields.damaged ? "a damaged normalizer" : "";
}

bool is_byte_piece(std::string_view piece) {
  const auto digit = [](char byte) { return (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'F'); };
  return piece.size() == 6 && piece.starts_with("<0x") && digit(piece[3]) && digit(piece[4]) && piece[5] == '>';
}

std::string piece_problem(std::string_view message, int& unknown) {
  constexpr std::uint64_t unknown_type = 2, byte_type = 6;
  Fields fields(message);
  std::string_view piece;
  std::uint64_t type = 1;
  while (fields.next()) {
    if (fields.number == 1) {
      if (fields.kind != bytes_kind) return "a piece without text";
      piece = fields.text;
    } else if (fields.number == 2) {
      if (fields.kind != float_kind) return "a piece without score";
      if (!std::isfinite(std::bit_cast<float>(static_cast<std::uint32_t>(fields.value))))
        return "a score that is no number";
    } else if (fields.number == 3) {
      if (fields.kind != number_kind || fields.value < 1 || fields.value > 6) return "a piece of no kind";
      type = fields.value;
    }
  }
  if (fields.damaged) return "a damaged piece";
  if (piece.empty() || piece.find('\0') != std::string_view::npos) return "a piece without text";
  if (type == byte_type && !is_byte_piece(piece)) return "a byte that is none";
  unknown += type == unknown_type ? 1 : 0;
  return "";
}

}  // namespace

std::string sentencepiece_model_problem(std::string_view model) {
  Fields fields(model);
  int unknown = 0;
  std::string problem;
  while (problem.empty() && fields.next()) {
    if (fields.number > 5) continue;
    if (fields.kind != bytes_kind) return "something else";
    if (fields.number == 1) problem = piece_problem(fields.text, unknown);
    if (fields.number == 2) {
      Fields training(fields.text);
      while (training.next())
        if (training.number == 3 && (training.kind != number_kind || training.value < 1 || training.value > 4))
          problem = "a kind of model that is not known";
      if (training.damaged) problem = "damaged settings";
    }
    if (fields.number == 3 || fields.number == 5) problem = normalizer_problem(fields.text);
  }
  if (!problem.empty()) return problem;
  if (fields.damaged) return "something else";
  return unknown == 1 ? "" : std::to_string(unknown) + " pieces for what is unknown";
}

ModelSettings sentencepiece_model_settings(std::string_view model) {
  constexpr std::uint64_t byte_pairs = 2, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6;
  ModelSettings settings;
  Fields fields(model);
  while (fields.next()) {
    if (fields.number == 1) {
      Fields of_piece(fields.text);
      ModelPiece piece;
      while (of_piece.next()) {
        if (of_piece.number == 1) piece.text = of_piece.text;
        if (of_piece.number == 2) piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(of_piece.value));
        if (of_piece.number != 3) continue;
        piece.user_defined = of_piece.value == user_defined;
        if (of_piece.value == unknown) piece.kind = PieceKind::unknown;
        if (of_piece.value == control) piece.kind = PieceKind::control;
        if (of_piece.value == unused) piece.kind = PieceKind::unused;
        if (of_piece.value == byte) piece.kind = PieceKind::byte;
      }
      settings.pieces.push_back(piece);
    } else if (fields.number == 2) {
      Fields training(fields.text);
      while (training.next()) {
        if (training.number == 3) settings.byte_pairs = training.value == byte_pairs;
        if (training.number == 24) settings.space_after = training.value != 0;
        if (training.number == 35) settings.bytes = training.value != 0;
      }
    } else if (fields.number == 3) {
      Fields normalizer(fields.text);
      while (normalizer.next()) {
        if (normalizer.number == 2) settings.normalizes = !normalizer.text.empty();
        if (normalizer.number == 3) settings.space_before = normalizer.value != 0;
        if (normalizer.number == 4) settings.drops_spaces = normalizer.value != 0;
        if (normalizer.number == 5) settings.shows_spaces = normalizer.value != 0;
      }
    }
  }
  return settings;
}

}  // namespace cogwheel::text
