// The formats of IAM-OnDB (Liwicki and Bunke 2005).
#include <charconv>
#include <pugixml.hpp>

#include "cogwheel/core/encoding/utf8.h"
#include "cogwheel/core/error.h"
#include "cogwheel/tasks/handwriting/stroke_files.h"

namespace cogwheel::tasks::handwriting {
namespace {

void parse_xml(pugi::xml_document& document, const std::string& xml, const std::string& name) {
  const pugi::xml_parse_result result = document.load_buffer(xml.data(), xml.size());
  if (!result)
    throw Error(expected_got(
        name, "XML",
        std::string(result.description()) + " at byte " + std::to_string(std::max<long>(0, result.offset))));
}

// The whole attribute as a number; pugixml reads what is none as 0.
double coordinate_of(const pugi::xml_node& point, const char* axis, const std::string& name) {
  const std::string_view text = point.attribute(axis).value();
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size())
    throw Error(expected_got(name, std::string("a number for ") + axis + " of each Point", text));
  return value;
}

void expect_utf8(const std::string& text, const std::string& name) {
  const std::size_t offset = find_non_text(text);
  if (offset != std::string::npos)
    throw Error(expected_got(name, "a transcript in UTF-8", code_point_text(text, offset)));
}

std::string trimmed(const std::string& line) {
  constexpr const char* white = " \t\r\n\v\f";
  const std::size_t begin = line.find_first_not_of(white), end = line.find_last_not_of(white);
  return begin == std::string::npos ? "" : line.substr(begin, end + 1 - begin);
}

}  // namespace

StrokeSequence parse_line_strokes(const std::string& xml, const std::string& name) {
  pugi::xml_document document;
  parse_xml(document, xml, name);
  const pugi::xml_node set = document.document_element().child("StrokeSet");
  if (!set)
    throw Error(expected_got(name, "an element StrokeSet within the first one",
                             "none in <" + std::string(document.document_element().name()) + ">"));
  std::vector<PenStroke> strokes;
  for (const pugi::xml_node& stroke : set.children("Stroke")) {
    strokes.emplace_back();
    for (const pugi::xml_node& point : stroke.children("Point"))
      strokes.back().push_back({coordinate_of(point, "x", name), coordinate_of(point, "y", name)});
  }
  return sequence_of(strokes, name);
}

std::vector<std::string> parse_transcript(const std::string& text, const std::string& name) {
  expect_utf8(text, name);
  std::vector<std::string> lines;
  bool found = false;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = trimmed(text.substr(begin, end - begin));
    if (found && !line.empty()) lines.push_back(line);
    found = found || line == "CSR:";
    begin = end + 1;
  }
  if (!found) throw Error(expected_got(name, "a line CSR: before the transcript", text.empty() ? "" : "none"));
  return lines;
}

std::vector<std::string> parse_original_transcript(const std::string& xml, const std::string& name) {
  pugi::xml_document document;
  parse_xml(document, xml, name);
  std::vector<std::string> lines;
  for (const pugi::xml_node& line : document.document_element().child("Transcription").children("TextLine")) {
    const std::string text = trimmed(line.attribute("text").value());
    expect_utf8(text, name);
    if (!text.empty()) lines.push_back(text);
  }
  return lines;
}

}  // namespace cogwheel::tasks::handwriting
