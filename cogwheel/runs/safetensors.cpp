#include "cogwheel/runs/safetensors.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
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

using Entry = SafeTensorsFile::Entry;

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

DamagedFile damaged_file(const std::filesystem::path& path, const std::string& got) {
  return DamagedFile(expected_got(path.string(), "a whole safetensors file", got));
}

DamagedFile malformed(const std::filesystem::path& path, const std::string& name) {
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
  std::uint64_t offset = 0;
  if (!contents.metadata.empty()) header[metadata_entry] = contents.metadata;
  for (const auto& [name, tensor] : contents.tensors) {
    const std::uint64_t end = offset + tensor.nbytes();
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
  for (const auto& [name, tensor] : contents.tensors) {
    const at::Tensor numbers = tensor.cpu().contiguous();
    file.write(numbers.const_data_ptr(), numbers.nbytes());
  }
  file.commit();
}

SafeTensorsFile::SafeTensorsFile(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    const int problem = descriptor_ < 0 ? errno : EISDIR;
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
    throw Error(expected_got(path_.string(), "a file that can be read", std::strerror(problem)));
  }
  try {
    const auto size = static_cast<std::uint64_t>(status.st_size);
    std::string start(std::min<std::uint64_t>(size, length_bytes), 0);
    read(0, start.data(), start.size());
    std::string header(header_length(start, size, path_), 0);
    read(length_bytes, header.data(), header.size());
    first_ = length_bytes + header.size();
    const nlohmann::json json = parse_header(header, path_);
    metadata_ = metadata_of(json, path_);
    for (const auto& [name, entry] : json.items()) {
      try {
        if (name != metadata_entry) entries_.push_back(read_entry(name, entry, size - first_));
      } catch (const nlohmann::json::exception&) {
        throw malformed(path_, name);
      } catch (const std::invalid_argument& error) {
        throw damaged_file(path_, "an impossible " + std::string(error.what()) + " in " + nlohmann::json(name).dump());
      }
    }
    std::vector<Entry> by_place = entries_;
    try {
      expect_no_overlap_or_gap(by_place, size - first_);
    } catch (const std::invalid_argument& error) {
      throw damaged_file(path_, error.what());
    }
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

SafeTensorsFile::~SafeTensorsFile() { ::close(descriptor_); }

const Entry* SafeTensorsFile::find(const std::string& name) const {
  const auto place =
      std::lower_bound(entries_.begin(), entries_.end(), name,
                       [](const Entry& entry, const std::string& wanted) { return entry.name < wanted; });
  return place != entries_.end() && place->name == name ? &*place : nullptr;
}

void SafeTensorsFile::read(std::uint64_t place, void* into, std::size_t bytes) const {
  auto* position = static_cast<char*>(into);
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor_, position, bytes, static_cast<off_t>(place));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(expected_got(path_.string(), "a file that can be read", std::strerror(errno)));
    if (got == 0) throw damaged_file(path_, "one that became shorter while it was read");
    position += got;
    place += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
}

void SafeTensorsFile::read_into(const Entry& entry, at::Tensor target) const {
  if (target.is_cpu() && target.is_contiguous())
    return read(first_ + entry.begin, target.mutable_data_ptr(), entry.end - entry.begin);
  const at::Tensor numbers = at::empty(entry.shape, entry.type);
  read(first_ + entry.begin, numbers.mutable_data_ptr(), entry.end - entry.begin);
  target.copy_(numbers);
}

at::Tensor SafeTensorsFile::tensor(const Entry& entry) const {
  const at::Tensor numbers = at::empty(entry.shape, entry.type);
  if (entry.begin < entry.end) read(first_ + entry.begin, numbers.mutable_data_ptr(), entry.end - entry.begin);
  return at::isReducedFloatingType(entry.type) ? numbers.to(at::kFloat) : numbers;
}

SafeTensors load_safetensors(const std::filesystem::path& path) {
  const SafeTensorsFile file(path);
  SafeTensors contents{.tensors = {}, .metadata = file.metadata()};
  for (const Entry& entry : file.entries()) contents.tensors[entry.name] = file.tensor(entry);
  return contents;
}

namespace {

struct Digest {
  std::string name, type;
  std::vector<std::int64_t> shape;
  std::string sha256;
};

std::string hash_of_all(const std::vector<Digest>& digests, const std::map<std::string, std::string>& metadata) {
  nlohmann::json all = {{"tensors", nlohmann::json::array()}, {"metadata", metadata}};
  all["metadata"].erase("sha256");
  for (const Digest& each : digests) all["tensors"].push_back({each.name, each.type, each.shape, each.sha256});
  return cogwheel::sha256(all.dump());
}

// Several at a time.
void for_each_in_parallel(std::size_t count, const std::function<void(std::size_t)>& each) {
  at::parallel_for(0, static_cast<std::int64_t>(count), 1, [&](std::int64_t first, std::int64_t last) {
    for (auto index = static_cast<std::size_t>(first); index < static_cast<std::size_t>(last); ++index) each(index);
  });
}

}  // namespace

std::string sha256(const SafeTensors& contents) {
  std::vector<at::Tensor> tensors;
  std::vector<Digest> digests;
  for (const auto& [name, tensor] : contents.tensors) {
    tensors.push_back(tensor);
    digests.push_back({name, type_name(tensor.scalar_type()), tensor.sizes().vec(), {}});
  }
  for_each_in_parallel(tensors.size(), [&](std::size_t index) {
    const at::Tensor numbers = tensors[index].cpu().contiguous();
    digests[index].sha256 =
        cogwheel::sha256(std::string_view(static_cast<const char*>(numbers.const_data_ptr()), numbers.nbytes()));
  });
  return hash_of_all(digests, contents.metadata);
}

std::string SafeTensorsFile::sha256(const std::function<void(const Entry&, const at::Tensor&)>& look) const {
  constexpr std::uint64_t piece_bytes = 4 << 20;
  std::vector<Digest> digests;
  for (const Entry& entry : entries_) digests.push_back({entry.name, type_name(entry.type), entry.shape, {}});
  for_each_in_parallel(entries_.size(), [&](std::size_t index) {
    const Entry& entry = entries_[index];
    const auto size = at::elementSize(entry.type);
    at::Tensor buffer =
        at::empty({static_cast<std::int64_t>(std::min(piece_bytes, entry.end - entry.begin) / size)}, entry.type);
    Sha256 hash;
    for (std::uint64_t place = entry.begin; place < entry.end; place += buffer.nbytes()) {
      if (entry.end - place < buffer.nbytes())
        buffer = buffer.narrow(0, 0, static_cast<std::int64_t>((entry.end - place) / size));
      read(first_ + place, buffer.mutable_data_ptr(), buffer.nbytes());
      hash.add(std::string_view(static_cast<const char*>(buffer.const_data_ptr()), buffer.nbytes()));
      if (look) look(entry, buffer);
    }
    digests[index].sha256 = hash.digits();
  });
  return hash_of_all(digests, metadata_);
}

}  // namespace cogwheel::runs
