#include "cogwheel/text/prepared/each_document.h"

#include <optional>

#include "cogwheel/text/prepared/document_blocks.h"
#include "cogwheel/text/prepared/json_line.h"

namespace cogwheel::text {

void for_each_document(const std::vector<std::filesystem::path>& paths, const std::string& field,
                       const std::function<void(std::string_view text)>& take) {
  const std::vector<Source> sources = find_sources(paths).files;
  JsonLineReader lines;
  DocumentBlocks blocks(sources, 0, 0);
  while (const std::optional<DocumentBlock> block = blocks.next()) {
    const Source& source = sources[static_cast<std::size_t>(block->source)];
    for (const DocumentBlock::Document& document : block->documents) {
      const std::string_view text = block->text(document);
      if (source.form == SourceForm::text) {
        take(text);
        continue;
      }
      if (text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      const std::string what = source.path.string() + ", line " + std::to_string(document.number + 1);
      take(lines.field(text, field, InvalidUtf8::refuse, what).text);
    }
  }
}

}  // namespace cogwheel::text
