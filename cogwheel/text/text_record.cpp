#include "cogwheel/text/text_record.h"

#include <map>
#include <nlohmann/json.hpp>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"

namespace cogwheel::text {
namespace {

using Json = nlohmann::ordered_json;

// Absolute, so that it does not depend on the working folder.
std::string full_path(const std::filesystem::path& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

// At most three of the names.
std::string some_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t index = 0; index < std::min<std::size_t>(3, names.size()); ++index)
    text += (index == 0 ? "" : ", ") + names[index];
  return names.size() > 3 ? text + ", …" : text;
}

}  // namespace

std::string text_record(const Dataset& data) {
  return text_record(data.name, data.bytes, data.sha256, data.files, data.left_out);
}

std::string text_record(const std::string& name, std::int64_t bytes, const std::string& sha256,
                        const std::vector<CorpusFile>& files, const std::vector<LeftOut>& left_out) {
  Json read = Json::array(), not_read = Json::array();
  for (const CorpusFile& file : files)
    read.push_back({{"path", full_path(file.path)}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  for (const LeftOut& each : left_out) not_read.push_back({{"path", full_path(each.path)}, {"what", each.what}});
  const Json json{{"name", name},
                  {"bytes", bytes},
                  {"sha256", sha256},
                  {"files", std::move(read)},
                  {"left_out", std::move(not_read)}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string first_change(const std::filesystem::path& path, const std::vector<CorpusFile>& files) {
  std::map<std::string, std::string> recorded;
  try {
    const Json record = Json::parse(read_file(path));
    for (const Json& file : record.at("files"))
      recorded[file.at("path").get<std::string>()] = file.at("sha256").get<std::string>();
  } catch (const Error&) {
    return "";
  } catch (const nlohmann::json::exception&) {
    return "";
  }
  for (const CorpusFile& file : files) {
    const std::string place = full_path(file.path);
    const auto before = recorded.find(place);
    if (before == recorded.end()) return place + " is new";
    if (before->second != file.sha256) return place + " has changed";
    recorded.erase(before);
  }
  if (recorded.empty()) return "";
  const std::string& first = recorded.begin()->first;
  std::error_code problem;
  return first + (std::filesystem::exists(first, problem) ? " is not read any more" : " is gone");
}

std::string left_out_text(const Dataset& data) {
  std::map<std::string, std::vector<std::string>> names;
  for (const LeftOut& each : data.left_out) names[each.what].push_back(each.path.string());
  std::string text;
  for (const auto& [what, paths] : names)
    text += (text.empty() ? "" : " and ") + std::to_string(paths.size()) + " " + what + (paths.size() == 1 ? "" : "s") +
            " (" + some_of(paths) + ")";
  return text;
}

}  // namespace cogwheel::text
