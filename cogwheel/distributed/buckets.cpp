#include "cogwheel/distributed/buckets.h"

#include <torch/utils.h>

#include <algorithm>

#include "cogwheel/distributed/group.h"

namespace cogwheel::distributed {
namespace {

std::int64_t ceil_div(std::int64_t number, std::int64_t by) { return (number + by - 1) / by; }

// Owners that have all of a piece, the first ones; and how many numbers of it the next one has.
struct PieceOwners {
  std::int64_t whole, rest;
};

PieceOwners owners_of(const ExchangePiece& piece, std::int64_t numbers, const Owners& owners) {
  const std::int64_t stretch = owners.stretch(numbers), end = piece.of_stretch + piece.size;
  const std::int64_t whole = numbers < end ? 0 : std::min(owners.ranks(), (numbers - end) / stretch + 1);
  const std::int64_t rest = whole == owners.ranks() ? 0 : numbers - whole * stretch - piece.of_stretch;
  return {whole, std::max<std::int64_t>(0, rest)};
}

at::Tensor of_whole_owners(const at::Tensor& flat, const ExchangePiece& piece, std::int64_t stretch,
                           std::int64_t count) {
  return flat.as_strided({count, piece.size}, {stretch, 1}, flat.storage_offset() + piece.of_stretch);
}

}  // namespace

std::int64_t bytes_of_a_bucket(std::int64_t all_bytes, std::int64_t ranks) {
  constexpr std::int64_t buckets = 16, least = 4 << 20, most = 24 << 20, of_a_rank = 64 << 10;
  return std::max(std::clamp(all_bytes / buckets, least, most), ranks * of_a_rank);
}

std::int64_t exchanges_of_a_bucket(std::int64_t all_bytes, std::int64_t ranks) {
  return ceil_div(bytes_of_a_bucket(all_bytes, ranks), ranks * largest_message);
}

std::int64_t Owners::stretch(std::int64_t numbers) const { return ceil_div(ceil_div(numbers, unit_), ranks_) * unit_; }

std::int64_t Owners::first(std::int64_t numbers, std::int64_t rank) const {
  return std::min(rank * stretch(numbers), numbers);
}

std::int64_t Owners::size(std::int64_t numbers, std::int64_t rank) const {
  return std::min(stretch(numbers), numbers - first(numbers, rank));
}

at::Tensor Owners::own(const at::Tensor& tensor, std::int64_t rank) const {
  return tensor.view(-1).narrow(0, first(tensor.numel(), rank), size(tensor.numel(), rank));
}

void put_piece(const at::Tensor& exchanged, const ExchangePiece& piece, const at::Tensor& flat, const Owners& owners) {
  const std::int64_t numbers = flat.numel(), stretch = owners.stretch(numbers);
  const auto [whole, rest] = owners_of(piece, numbers, owners);
  const at::Tensor columns = exchanged.narrow(1, piece.column, piece.size);
  if (whole > 0) columns.narrow(0, 0, whole).copy_(of_whole_owners(flat, piece, stretch, whole));
  if (whole == owners.ranks()) return;
  columns.narrow(0, whole, owners.ranks() - whole).fill_(-0.0);
  if (rest > 0) columns[whole].narrow(0, 0, rest).copy_(flat.narrow(0, whole * stretch + piece.of_stretch, rest));
}

void take_piece(const at::Tensor& flat, const ExchangePiece& piece, const at::Tensor& exchanged, const Owners& owners) {
  const std::int64_t numbers = flat.numel(), stretch = owners.stretch(numbers);
  const auto [whole, rest] = owners_of(piece, numbers, owners);
  const at::Tensor columns = exchanged.narrow(1, piece.column, piece.size);
  if (whole > 0) of_whole_owners(flat, piece, stretch, whole).copy_(columns.narrow(0, 0, whole));
  if (rest > 0) flat.narrow(0, whole * stretch + piece.of_stretch, rest).copy_(columns[whole].narrow(0, 0, rest));
}

std::int64_t owned_of_piece(const ExchangePiece& piece, std::int64_t numbers, std::int64_t rank, const Owners& owners) {
  return std::clamp<std::int64_t>(owners.size(numbers, rank) - piece.of_stretch, 0, piece.size);
}

std::vector<std::vector<ExchangePlan>> planned_buckets(const std::vector<std::size_t>& order,
                                                       const std::vector<std::int64_t>& numbers, const Owners& owners) {
  constexpr auto bytes_of_number = static_cast<std::int64_t>(sizeof(float));
  std::int64_t all = 0;
  for (const std::size_t tensor : order) all += numbers[tensor] * bytes_of_number;
  const std::int64_t exchanges = exchanges_of_a_bucket(all, owners.ranks()),
                     length =
                         ceil_div(bytes_of_a_bucket(all, owners.ranks()), bytes_of_number * owners.ranks() * exchanges);
  std::vector<std::vector<ExchangePlan>> buckets;
  const auto open = [&]() -> ExchangePlan& {
    if (buckets.empty() || (std::ssize(buckets.back()) == exchanges && buckets.back().back().length == length))
      return buckets.emplace_back().emplace_back();
    std::vector<ExchangePlan>& bucket = buckets.back();
    return bucket.back().length == length ? bucket.emplace_back() : bucket.back();
  };
  for (const std::size_t tensor : order) {
    // Of what fewer numbers than a stretch have, the first owner has all.
    const std::int64_t stretch = std::min(owners.stretch(numbers[tensor]), numbers[tensor]);
    for (std::int64_t taken = 0; taken < stretch;) {
      ExchangePlan& plan = open();
      const std::int64_t size = std::min(stretch - taken, length - plan.length);
      plan.pieces.push_back({tensor, taken, plan.length, size});
      plan.length += size;
      taken += size;
    }
  }
  return buckets;
}

}  // namespace cogwheel::distributed
