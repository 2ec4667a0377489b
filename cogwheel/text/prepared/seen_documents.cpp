#include "cogwheel/text/prepared/seen_documents.h"

#include "cogwheel/core/random.h"

namespace cogwheel::text {
namespace {

constexpr DocumentHash free_place{};

}  // namespace

bool SeenDocuments::put(std::vector<DocumentHash>& places, const DocumentHash& hash) {
  for (std::size_t place = bounded(hash.low, places.size());; place = place + 1 == places.size() ? 0 : place + 1) {
    if (places[place] == hash) return false;
    if (places[place] == free_place) {
      places[place] = hash;
      return true;
    }
  }
}

bool SeenDocuments::insert(const DocumentHash& given) {
  const DocumentHash hash = given == free_place ? DocumentHash{0, 1} : given;
  Part& part = parts_[hash.high >> 56];
  if (20 * (part.size + 1) > 17 * part.places.size()) {  // 85 %
    std::vector<DocumentHash> larger(part.places.size() / 4 * 5 + 16);
    for (const DocumentHash& each : part.places)
      if (each != free_place) put(larger, each);
    part.places = std::move(larger);
  }
  const bool is_new = put(part.places, hash);
  part.size += is_new ? 1 : 0;
  size_ += is_new ? 1 : 0;
  return is_new;
}

std::size_t SeenDocuments::bytes() const {
  std::size_t places = 0;
  for (const Part& part : parts_) places += part.places.capacity();
  return places * sizeof(DocumentHash);
}

}  // namespace cogwheel::text
