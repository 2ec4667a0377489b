#include "cogwheel/runs/safetensors.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <bit>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"

namespace cogwheel::runs {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors stores little-endian numbers");

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 15> types{{{"F32", at::kFloat},
                                                                             {"F64", at::kDouble},
                                                                             {"I64", at::kLong},
                                                                             {"I32", at::kInt},
                                                                             {"U8", at::kByte},
                                                                             {"F16", at::kHalf},
                                                                             {"BF16", at::kBFloat16},
                                                                             {"BOOL", at::kBool},
                                                                             {"I8", at::kChar},
                                                                             {"I16", at::kShort},
                                                                             {"U16", at::kUInt16},
                                                                             {"U32", at::kUInt32},
                                                                             {"U64", at::kUInt64},
                                                                             {"F8_E4M3", at::kFloat8_e4m3fn},
                                                                             {"F8_E5M2", at::kFloat8_e5m2}}};
// Of which whole files are read and written.
constexpr std::size_t types_in_use = 7;

at::ScalarType scalar_type(std::string_view name) {
  const auto* const found =
      std::find_if(types.begin(), types.end(), [&](const auto& each) { return each.first == name; });
  if (found == types.end()) throw std::logic_error("a type that the header knows and the numbers do not");
  return found->second;
}

bool is_in_use(at::ScalarType type) {
  return std::any_of(types.begin(), types.begin() + types_in_use,
                     [&](const auto& each) { return each.second == type; });
}

std::string type_name(at::ScalarType type) {
  const auto* const found =
      std::find_if(types.begin(), types.end(), [&](const auto& each) { return each.second == type; });
  return std::string(found == types.end() ? std::string_view(at::toString(type)) : found->first);
}

constexpr const char* hash_entry = "sha256";
constexpr const char* names_in_use = "float32, float16, bfloat16, float64, int64, int32 or uint8";

using Entry = SafeTensorsFile::Entry;

// So many numbers that they are still in a core's cache when they are widened.
constexpr std::int64_t widened_at_once = 1 << 16;

std::vector<TensorToWrite> tensors_of(const SafeTensors& contents) {
  std::vector<TensorToWrite> tensors;
  for (const auto& [name, tensor] : contents.tensors)
    tensors.push_back({name, tensor.scalar_type(), tensor.sizes().vec(), [&tensor = tensor] { return tensor; }});
  return tensors;
}

struct Digest {
  std::string name, type;
  std::vector<std::int64_t> shape;
  std::string sha256;
};

std::string hash_of_all(const std::vector<Digest>& digests, const std::map<std::string, std::string>& metadata) {
  nlohmann::json all = {{"tensors", nlohmann::json::array()}, {"metadata", metadata}};
  all["metadata"].erase(hash_entry);
  for (const Digest& each : digests) all["tensors"].push_back({each.name, each.type, each.shape, each.sha256});
  return cogwheel::sha256(all.dump());
}

Digest undigested(const TensorToWrite& tensor) { return {tensor.name, type_name(tensor.type), tensor.shape, {}}; }

std::string_view bytes_of(const at::Tensor& numbers) {
  return {static_cast<const char*>(numbers.const_data_ptr()), numbers.nbytes()};
}

// With the length before it.
std::string header_of(const AtomicFile& file, const std::vector<TensorToWrite>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  nlohmann::json header = nlohmann::json::object();
  std::uint64_t offset = 0;
  if (!metadata.empty()) header[metadata_entry] = metadata;
  for (const TensorToWrite& each : tensors) {
    if (!is_in_use(each.type))
      throw Error(expected_got(file.path().string() + ": " + each.name, names_in_use, at::toString(each.type)));
    const std::uint64_t end = offset + each.bytes();
    header[each.name] = {{"dtype", type_name(each.type)}, {"shape", each.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the numbers start aligned, for readers that map the file
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

// `look` sees the bytes of each tensor.
void write_numbers(AtomicFile& file, const std::vector<TensorToWrite>& tensors,
                   const std::function<void(std::size_t, std::string_view)>& look = {}) {
  for (std::size_t index = 0; index < tensors.size(); ++index) {
    const TensorToWrite& each = tensors[index];
    const at::Tensor numbers = each.numbers().cpu().contiguous();
    if (numbers.scalar_type() != each.type || numbers.nbytes() != each.bytes())
      throw std::logic_error("other numbers of " + each.name + " than were announced");
    if (look) look(index, bytes_of(numbers));
    file.write(bytes_of(numbers));
  }
}

}  // namespace

void write_safetensors(AtomicFile& file, const std::vector<TensorToWrite>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  file.write(header_of(file, tensors, metadata));
  write_numbers(file, tensors);
}

void write_hashed_safetensors(AtomicFile& file, const std::vector<TensorToWrite>& tensors,
                              std::map<std::string, std::string> metadata) {
  std::string& hash = metadata[hash_entry] = cogwheel::sha256("");  // as long as that of the file
  file.write(header_of(file, tensors, metadata));
  std::vector<Digest> digests;
  for (const TensorToWrite& each : tensors) digests.push_back(undigested(each));
  write_numbers(file, tensors,
                [&](std::size_t index, std::string_view bytes) { digests[index].sha256 = cogwheel::sha256(bytes); });
  hash = hash_of_all(digests, metadata);
  file.overwrite(0, header_of(file, tensors, metadata));
}

std::uint64_t TensorToWrite::bytes() const {
  auto size_of_all = static_cast<std::uint64_t>(at::elementSize(type));
  for (const std::int64_t count : shape) size_of_all *= static_cast<std::uint64_t>(count);
  return size_of_all;
}

void save_safetensors(const SafeTensors& contents, const std::filesystem::path& path) {
  AtomicFile file(path);
  write_safetensors(file, tensors_of(contents), contents.metadata);
  file.commit();
}

SafeTensorsFile::SafeTensorsFile(const std::filesystem::path& path) : file_(path) {
  SafeTensorsHeader header = read_safetensors_header(file_);
  first_ = header.first;
  metadata_ = std::move(header.metadata);
  for (SafeTensorsHeader::Entry& entry : header.entries)
    entries_.push_back({.name = std::move(entry.name),
                        .type = scalar_type(entry.type),
                        .shape = std::move(entry.shape),
                        .begin = entry.begin,
                        .end = entry.end});
}

const Entry* SafeTensorsFile::find(const std::string& name) const {
  const auto place =
      std::lower_bound(entries_.begin(), entries_.end(), name,
                       [](const Entry& entry, const std::string& wanted) { return entry.name < wanted; });
  return place != entries_.end() && place->name == name ? &*place : nullptr;
}

void SafeTensorsFile::read(std::uint64_t place, void* into, std::size_t bytes) const {
  file_.read(first_ + place, {static_cast<std::byte*>(into), bytes});
}

void SafeTensorsFile::read_into(const Entry& entry, at::Tensor target) const {
  if (target.is_cpu() && target.is_contiguous())
    return read(entry.begin, target.mutable_data_ptr(), entry.end - entry.begin);
  const at::Tensor numbers = at::empty(entry.shape, entry.type);
  read(entry.begin, numbers.mutable_data_ptr(), entry.end - entry.begin);
  target.copy_(numbers);
}

void SafeTensorsFile::read_float32(const Entry& entry, std::int64_t first, at::Tensor target) const {
  const std::int64_t count = target.numel();
  const auto size = static_cast<std::int64_t>(at::elementSize(entry.type));
  if (count == 0) return;
  const at::Tensor numbers = entry.type == at::kFloat ? target : at::empty(target.sizes(), entry.type);
  read(entry.begin + static_cast<std::uint64_t>(first * size), numbers.mutable_data_ptr(),
       static_cast<std::size_t>(count * size));
  if (entry.type != at::kFloat) target.copy_(numbers);
}

at::Tensor SafeTensorsFile::tensor(const Entry& entry) const {
  if (!is_in_use(entry.type))
    throw Error(expected_got(path().string() + ": " + entry.name, names_in_use, type_name(entry.type)));
  const bool widened = at::isReducedFloatingType(entry.type);
  at::Tensor numbers = at::empty(entry.shape, widened ? at::kFloat : entry.type);
  if (entry.begin == entry.end) return numbers;
  if (!widened) {
    read(entry.begin, numbers.mutable_data_ptr(), entry.end - entry.begin);
    return numbers;
  }
  const at::Tensor flat = numbers.view(-1);
  at::parallel_for(0, flat.numel(), widened_at_once, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = begin; first < end; first += widened_at_once)
      read_float32(entry, first, flat.narrow(0, first, std::min(widened_at_once, end - first)));
  });
  return numbers;
}

SafeTensors load_safetensors(const std::filesystem::path& path) {
  const SafeTensorsFile file(path);
  SafeTensors contents{.tensors = {}, .metadata = file.metadata()};
  for (const Entry& entry : file.entries()) contents.tensors[entry.name] = file.tensor(entry);
  return contents;
}

namespace {

// Several at a time.
void for_each_in_parallel(std::size_t count, const std::function<void(std::size_t)>& each) {
  at::parallel_for(0, static_cast<std::int64_t>(count), 1, [&](std::int64_t first, std::int64_t last) {
    for (auto index = static_cast<std::size_t>(first); index < static_cast<std::size_t>(last); ++index) each(index);
  });
}

}  // namespace

std::string sha256(const std::vector<TensorToWrite>& tensors, const std::map<std::string, std::string>& metadata) {
  std::vector<Digest> digests;
  for (const TensorToWrite& each : tensors) digests.push_back(undigested(each));
  for_each_in_parallel(tensors.size(), [&](std::size_t index) {
    digests[index].sha256 = cogwheel::sha256(bytes_of(tensors[index].numbers().cpu().contiguous()));
  });
  return hash_of_all(digests, metadata);
}

std::string sha256(const SafeTensors& contents) { return sha256(tensors_of(contents), contents.metadata); }

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
      read(place, buffer.mutable_data_ptr(), buffer.nbytes());
      hash.add(std::string_view(static_cast<const char*>(buffer.const_data_ptr()), buffer.nbytes()));
      if (look) look(entry, buffer);
    }
    digests[index].sha256 = hash.digits();
  });
  return hash_of_all(digests, metadata_);
}

}  // namespace cogwheel::runs
