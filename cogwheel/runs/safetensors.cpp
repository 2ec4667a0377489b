#include "cogwheel/runs/safetensors.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <vector>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"

namespace cogwheel::runs {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors stores little-endian numbers");

std::optional<at::ScalarType> scalar_type(const std::string& name) {
  if (name == "F32") return at::kFloat;
  if (name == "F64") return at::kDouble;
  if (name == "I64") return at::kLong;
  if (name == "I32") return at::kInt;
  if (name == "U8") return at::kByte;
  if (name == "F16") return at::kHalf;
  if (name == "BF16") return at::kBFloat16;
  return std::nullopt;
}

std::string type_name(at::ScalarType type) {
  for (const char* name : {"F32", "F64", "I64", "I32", "U8"})
    if (scalar_type(name) == type) return name;
  throw Error(expected_got("safetensors", "float32, float64, int64, int32 or uint8", at::toString(type)));
}

// An entry of the header; everything is checked except that it adjoins the other entries.
struct Entry {
  std::string name;
  at::ScalarType type;
  std::vector<std::int64_t> shape;
  std::uint64_t begin, end;
};

std::uint64_t count_at(const nlohmann::json& number) {
  if (!number.is_number_unsigned()) throw std::invalid_argument("number " + number.dump());
  return number.get<std::uint64_t>();
}

// Checks everything that may be wrong in a damaged file; `bytes` is the size of all numbers.
Entry read_entry(const std::string& name, const nlohmann::json& json, std::uint64_t bytes) {
  const auto type_text = json.at("dtype").get<std::string>();
  const auto type = scalar_type(type_text);
  if (!type) throw std::invalid_argument("type " + type_text);
  const nlohmann::json& offsets = json.at("data_offsets");
  if (!offsets.is_array() || offsets.size() != 2) throw std::invalid_argument("offsets " + offsets.dump());
  Entry entry{.name = name, .type = *type, .shape = {}, .begin = count_at(offsets[0]), .end = count_at(offsets[1])};
  if (entry.begin > entry.end || entry.end > bytes) throw std::invalid_argument("offsets " + offsets.dump());
  if (!json.at("shape").is_array()) throw std::invalid_argument("shape " + json["shape"].dump());
  std::uint64_t size = at::elementSize(*type);
  for (const nlohmann::json& dimension : json["shape"]) {
    const std::uint64_t count = count_at(dimension);
    // Also where another dimension is 0: no product of dimensions may overflow 64 bits.
    if (count > 0 && std::max<std::uint64_t>(size, 1) > (std::uint64_t{1} << 62) / count)
      throw std::invalid_argument("shape " + json["shape"].dump());
    size *= count;
    entry.shape.push_back(static_cast<std::int64_t>(count));
  }
  if (size != entry.end - entry.begin) throw std::invalid_argument("size");
  return entry;
}

// Entries must adjoin each other from the first byte to the last.
void expect_no_overlap_or_gap(std::vector<Entry>& entries, std::uint64_t bytes) {
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  std::uint64_t place = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != place)
      throw std::invalid_argument(nlohmann::json(entry.name).dump() + " at byte " + std::to_string(entry.begin) +
                                  " of the numbers instead of " + std::to_string(place));
    place = entry.end;
  }
  if (place != bytes)
    throw std::invalid_argument(std::to_string(bytes) + " bytes of numbers instead of " + std::to_string(place));
}

Error damaged_file(const std::filesystem::path& path, const std::string& got) {
  return Error(expected_got(path.string(), "a whole safetensors file", got));
}

Error malformed(const std::filesystem::path& path, const std::string& name) {
  return damaged_file(path, "a malformed entry " + nlohmann::json(name).dump());
}

constexpr std::size_t length_bytes = sizeof(std::uint64_t);
constexpr const char* metadata_entry = "__metadata__";

std::uint64_t header_length(std::string_view start, std::uint64_t file_size, const std::filesystem::path& path) {
  if (start.size() < length_bytes) throw damaged_file(path, std::to_string(start.size()) + " bytes");
  std::uint64_t length = 0;
  std::memcpy(&length, start.data(), length_bytes);
  if (length > file_size - length_bytes)
    throw damaged_file(path,
                       "a header of " + std::to_string(length) + " bytes in a file of " + std::to_string(file_size));
  return length;
}

nlohmann::json parse_header(std::string_view text, const std::filesystem::path& path) {
  auto header = nlohmann::json::parse(text, nullptr, false);
  if (!header.is_object()) throw damaged_file(path, "a header that is no JSON object");
  return header;
}

std::map<std::string, std::string> metadata_of(const nlohmann::json& header, const std::filesystem::path& path) {
  const auto found = header.find(metadata_entry);
  if (found == header.end()) return {};
  try {
    return found->get<std::map<std::string, std::string>>();
  } catch (const nlohmann::json::exception&) {
    throw malformed(path, metadata_entry);
  }
}

}  // namespace

std::map<std::string, std::string> load_metadata(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string start(length_bytes, 0);
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<std::size_t>(file.gcount()));
  std::string header(header_length(start, std::filesystem::file_size(path), path), 0);
  file.read(header.data(), static_cast<std::streamsize>(header.size()));
  return metadata_of(parse_header(header, path), path);
}

void save_safetensors(const SafeTensors& contents, const std::filesystem::path& path) {
  nlohmann::json header;
  std::vector<at::Tensor> tensors;
  std::uint64_t offset = 0;
  if (!contents.metadata.empty()) header["__metadata__"] = contents.metadata;
  for (const auto& [name, tensor] : contents.tensors) {
    tensors.push_back(tensor.contiguous());
    const std::uint64_t end = offset + tensors.back().nbytes();
    header[name] = {
        {"dtype", type_name(tensor.scalar_type())}, {"shape", tensor.sizes().vec()}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the numbers start aligned, for readers that map the file
  const std::uint64_t length = text.size();
  AtomicFile file(path);
  file.write(&length, sizeof length);
  file.write(text);
  for (const auto& tensor : tensors) file.write(tensor.const_data_ptr(), tensor.nbytes());
  file.commit();
}

SafeTensors load_safetensors(const std::filesystem::path& path) {
  const std::string bytes = read_file(path);
  const auto damaged = [&](const std::string& got) { return damaged_file(path, got); };
  const std::string_view all = bytes;
  const std::uint64_t length = header_length(all.substr(0, length_bytes), bytes.size(), path);
  const nlohmann::json header = parse_header(all.substr(length_bytes, length), path);
  const std::string_view data = all.substr(length_bytes + length);
  SafeTensors contents{.tensors = {}, .metadata = metadata_of(header, path)};
  std::vector<Entry> entries;
  for (const auto& [name, entry] : header.items()) {
    try {
      if (name != metadata_entry) entries.push_back(read_entry(name, entry, data.size()));
    } catch (const nlohmann::json::exception&) {
      throw malformed(path, name);
    } catch (const std::invalid_argument& error) {
      throw damaged("an impossible " + std::string(error.what()) + " in " + nlohmann::json(name).dump());
    }
  }
  try {
    expect_no_overlap_or_gap(entries, data.size());
  } catch (const std::invalid_argument& error) {
    throw damaged(error.what());
  }
  for (const Entry& entry : entries) {
    at::Tensor tensor = at::empty(entry.shape, entry.type);
    if (entry.begin < entry.end)
      std::memcpy(tensor.mutable_data_ptr(), data.data() + entry.begin, entry.end - entry.begin);
    contents.tensors[entry.name] = at::isReducedFloatingType(entry.type) ? tensor.to(at::kFloat) : tensor;
  }
  return contents;
}

std::string sha256(const SafeTensors& contents) {
  // Tensor by tensor, so that several can be hashed at a time.
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const auto& [name, tensor] : contents.tensors) tensors.emplace_back(name, tensor.contiguous());
  std::vector<std::string> digests(tensors.size());
  at::parallel_for(0, static_cast<std::int64_t>(tensors.size()), 1, [&](std::int64_t first, std::int64_t last) {
    for (auto index = static_cast<std::size_t>(first); index < static_cast<std::size_t>(last); ++index) {
      const at::Tensor& tensor = tensors[index].second;
      digests[index] =
          cogwheel::sha256(std::string_view(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()));
    }
  });
  nlohmann::json all = {{"tensors", nlohmann::json::array()}, {"metadata", contents.metadata}};
  all["metadata"].erase("sha256");
  for (std::size_t index = 0; index < tensors.size(); ++index) {
    const auto& [name, tensor] = tensors[index];
    all["tensors"].push_back({name, type_name(tensor.scalar_type()), tensor.sizes().vec(), digests[index]});
  }
  return cogwheel::sha256(all.dump());
}

}  // namespace cogwheel::runs
