#include "cogwheel/text/text_lines.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/encoding/utf8.h"
#include "cogwheel/core/error.h"

namespace cogwheel::text {
namespace {

// zlib also reads a file that is not compressed, as it is.
std::string contents_of(const std::filesystem::path& path) {
  errno = 0;
  const auto refuse = [&](const std::string& got) { throw Error(expected_got(path.string(), "a text file", got)); };
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(::gzopen(path.c_str(), "rb"), ::gzclose);
  if (!file) refuse(errno == 0 ? "no memory" : std::strerror(errno));
  ::gzbuffer(file.get(), 1 << 16);
  std::string contents;
  for (std::string piece(1 << 16, '\0');;) {
    const int count = ::gzread(file.get(), piece.data(), static_cast<unsigned>(piece.size()));
    if (count > 0) contents.append(piece, 0, static_cast<std::size_t>(count));
    if (count == static_cast<int>(piece.size())) continue;
    int problem = Z_OK;
    const std::string message = ::gzerror(file.get(), &problem);
    if (problem == Z_ERRNO) refuse(std::strerror(errno));
    if (problem == Z_BUF_ERROR) refuse("the start of a compressed one: the file was cut off");
    if (problem != Z_OK || count < 0) refuse("damaged compression: " + message);
    return contents;
  }
}

void expect_text(const std::filesystem::path& path, std::size_t line, std::string_view text) {
  const std::size_t offset = find_non_text(text);
  if (offset == std::string_view::npos) return;
  throw Error(expected_got(
      fmt::format("{}, line {}", path.string(), line), "text in UTF-8",
      fmt::format("byte 0x{:02X} at byte {} of the line", static_cast<unsigned char>(text[offset]), offset + 1)));
}

}  // namespace

TextLines read_text_lines(const std::filesystem::path& path) {
  const std::string contents = contents_of(path);
  TextLines text{.lines = {}, .bytes = static_cast<std::int64_t>(contents.size()), .sha256 = sha256(contents)};
  std::string_view rest = contents;
  if (rest.starts_with("\xef\xbb\xbf")) rest.remove_prefix(3);
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    expect_text(path, text.lines.size() + 1, line);
    text.lines.emplace_back(line);
  }
  return text;
}

}  // namespace cogwheel::text
