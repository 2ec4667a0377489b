#include "cogwheel/runs/safetensors_header.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <utility>

namespace cogwheel::runs {
namespace {

using HeaderEntry = SafeTensorsHeader::Entry;

std::uint64_t count_at(const nlohmann::json& number) {
  if (!number.is_number_unsigned()) throw std::invalid_argument("number " + number.dump());
  return number.get<std::uint64_t>();
}

// Checks everything that may be wrong in a damaged file; `bytes` is the size of all numbers.
HeaderEntry read_entry(const std::string& name, const nlohmann::json& json, std::uint64_t bytes) {
  HeaderEntry entry{.name = name, .type = json.at("dtype").get<std::string>(), .shape = {}, .begin = 0, .end = 0};
  auto size = static_cast<std::uint64_t>(bytes_of_type(entry.type));
  if (size == 0) throw std::invalid_argument("type " + entry.type);
  const nlohmann::json& offsets = json.at("data_offsets");
  if (!offsets.is_array() || offsets.size() != 2) throw std::invalid_argument("offsets " + offsets.dump());
  entry.begin = count_at(offsets[0]);
  entry.end = count_at(offsets[1]);
  if (entry.begin > entry.end || entry.end > bytes) throw std::invalid_argument("offsets " + offsets.dump());
  if (!json.at("shape").is_array()) throw std::invalid_argument("shape " + json["shape"].dump());
  std::uint64_t without_zeros = size;  // also beside a dimension of 0, no product of others may overflow 64 bits
  for (const nlohmann::json& dimension : json["shape"]) {
    const std::uint64_t count = count_at(dimension), factor = std::max<std::uint64_t>(count, 1);
    if (without_zeros > (std::uint64_t{1} << 62) / factor) throw std::invalid_argument("shape " + json["shape"].dump());
    without_zeros *= factor;
    size *= count;
    entry.shape.push_back(static_cast<std::int64_t>(count));
  }
  if (size != entry.end - entry.begin) throw std::invalid_argument("size");
  return entry;
}

// Entries must adjoin each other from the first byte to the last.
void expect_no_overlap_or_gap(std::vector<HeaderEntry> entries, std::uint64_t bytes) {
  std::sort(entries.begin(), entries.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t place = 0;
  for (const HeaderEntry& entry : entries) {
    if (entry.begin != place)
      throw std::invalid_argument(nlohmann::json(entry.name).dump() + " at byte " + std::to_string(entry.begin) +
                                  " of the numbers instead of " + std::to_string(place));
    place = entry.end;
  }
  if (place != bytes)
    throw std::invalid_argument(std::to_string(bytes) + " bytes of numbers instead of " + std::to_string(place));
}

DamagedFile damaged_file(const std::filesystem::path& path, const std::string& got) {
  return DamagedFile(expected_got(path.string(), "a whole safetensors file", got));
}

constexpr std::size_t length_bytes = sizeof(std::uint64_t);
constexpr std::uint64_t longest_header = 100'000'000;  // as the format's own reader has it

// With the byte after it.
std::pair<nlohmann::json, std::uint64_t> header_of(const RandomAccessFile& file) {
  if (file.size() < length_bytes) throw damaged_file(file.path(), std::to_string(file.size()) + " bytes");
  std::uint64_t length = 0;
  file.read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > std::min(longest_header, file.size() - length_bytes))
    throw damaged_file(file.path(),
                       "a header of " + std::to_string(length) + " bytes in a file of " + std::to_string(file.size()));
  std::string text(length, 0);
  file.read(length_bytes, std::as_writable_bytes(std::span(text)));
  auto header = nlohmann::json::parse(text, nullptr, false);
  if (!header.is_object()) throw damaged_file(file.path(), "a header that is no JSON object");
  return {std::move(header), length_bytes + length};
}

}  // namespace

std::int64_t bytes_of_type(std::string_view type) {
  constexpr std::array<std::pair<std::string_view, std::int64_t>, 15> known{{{"F32", 4},
                                                                             {"F64", 8},
                                                                             {"I64", 8},
                                                                             {"I32", 4},
                                                                             {"U8", 1},
                                                                             {"F16", 2},
                                                                             {"BF16", 2},
                                                                             {"BOOL", 1},
                                                                             {"I8", 1},
                                                                             {"I16", 2},
                                                                             {"U16", 2},
                                                                             {"U32", 4},
                                                                             {"U64", 8},
                                                                             {"F8_E4M3", 1},
                                                                             {"F8_E5M2", 1}}};
  const auto* const found =
      std::find_if(known.begin(), known.end(), [&](const auto& each) { return each.first == type; });
  return found == known.end() ? 0 : found->second;
}

SafeTensorsHeader read_safetensors_header(const RandomAccessFile& file) {
  const std::filesystem::path& path = file.path();
  const auto [json, first] = header_of(file);
  const std::uint64_t bytes = file.size() - first;
  SafeTensorsHeader header{.first = first};
  for (const auto& [name, value] : json.items()) {
    try {
      if (name == metadata_entry)
        header.metadata = value.get<std::map<std::string, std::string>>();
      else
        header.entries.push_back(read_entry(name, value, bytes));
    } catch (const nlohmann::json::exception&) {
      throw damaged_file(path, "a malformed entry " + nlohmann::json(name).dump());
    } catch (const std::invalid_argument& error) {
      throw damaged_file(path, "an impossible " + std::string(error.what()) + " in " + nlohmann::json(name).dump());
    }
  }
  try {
    expect_no_overlap_or_gap(header.entries, bytes);
  } catch (const std::invalid_argument& error) {
    throw damaged_file(path, error.what());
  }
  return header;
}

}  // namespace cogwheel::runs
