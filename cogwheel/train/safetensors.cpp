#include "cogwheel/train/safetensors.h"

#include <ATen/ops/empty.h>

#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "cogwheel/core/atomic_file.h"
#include "cogwheel/core/error.h"

namespace cogwheel {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors stores little-endian numbers");

std::optional<at::ScalarType> scalar_type(const std::string& name) {
  if (name == "F32") return at::kFloat;
  if (name == "F64") return at::kDouble;
  if (name == "I64") return at::kLong;
  return std::nullopt;
}

std::string type_name(at::ScalarType type) {
  for (const char* name : {"F32", "F64", "I64"})
    if (scalar_type(name) == type) return name;
  throw Error(expected_got("safetensors", "float32, float64 or int64", at::toString(type)));
}

// Reads one entry of the header; everything that a damaged file could say is checked.
at::Tensor read_tensor(const nlohmann::json& entry, std::string_view data) {
  const auto type = scalar_type(entry.at("dtype").get<std::string>());
  const auto shape = entry.at("shape").get<std::vector<std::int64_t>>();
  const auto offsets = entry.at("data_offsets").get<std::vector<std::uint64_t>>();
  if (!type || offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data.size())
    throw std::invalid_argument("type or offsets");
  std::uint64_t bytes = at::elementSize(*type);
  for (const std::int64_t size : shape) {
    if (size < 0 || (size > 0 && bytes > data.size() / static_cast<std::uint64_t>(size)))
      throw std::invalid_argument("shape");
    bytes *= static_cast<std::uint64_t>(size);
  }
  if (bytes != offsets[1] - offsets[0]) throw std::invalid_argument("size");
  at::Tensor tensor = at::empty(shape, *type);
  std::memcpy(tensor.mutable_data_ptr(), data.data() + offsets[0], bytes);
  return tensor;
}

}  // namespace

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
  const auto damaged = [&](const std::string& got) {
    return Error(expected_got(path.string(), "a whole safetensors file", got));
  };
  std::uint64_t length = 0;
  if (bytes.size() < sizeof length) throw damaged(std::to_string(bytes.size()) + " bytes");
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > bytes.size() - sizeof length)
    throw damaged("a header of " + std::to_string(length) + " bytes in a file of " + std::to_string(bytes.size()));
  const std::string_view all = bytes;
  const auto header = nlohmann::json::parse(all.substr(sizeof length, length), nullptr, false);
  if (!header.is_object()) throw damaged("a header that is no JSON object");
  const std::string_view data = all.substr(sizeof length + length);
  SafeTensors contents;
  std::uint64_t end = 0;
  for (const auto& [name, entry] : header.items()) {
    try {
      if (name == "__metadata__") {
        contents.metadata = entry.get<std::map<std::string, std::string>>();
        continue;
      }
      contents.tensors[name] = read_tensor(entry, data);
      end = std::max(end, entry.at("data_offsets").at(1).get<std::uint64_t>());
    } catch (const nlohmann::json::exception&) {
      throw damaged("a malformed entry \"" + name + "\"");
    } catch (const std::invalid_argument& error) {
      throw damaged("an impossible " + std::string(error.what()) + " in \"" + name + "\"");
    }
  }
  if (end != data.size())
    throw damaged(std::to_string(data.size()) + " bytes of numbers instead of " + std::to_string(end));
  return contents;
}

}  // namespace cogwheel
