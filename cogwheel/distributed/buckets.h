// Buckets in which the numbers of many tensors travel between ranks, of which each owns a stretch of every tensor. A
// bucket is one or more exchanges; those of gradients begin together.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cogwheel::distributed {

// How many bytes begin to travel at a time, of tensors of so many in all: a sixteenth, so that little is left to send
// when the last gradient is there, but 4 to 24 MiB, where a round trip is little and threads that send do not take
// turns with those that compute all the time (docs/results/scale.md), and at least 64 KiB for each rank.
std::int64_t bytes_of_a_bucket(std::int64_t all_bytes, std::int64_t ranks);
// In how many exchanges of equal size, none of which has messages that are too large (group.h).
std::int64_t exchanges_of_a_bucket(std::int64_t all_bytes, std::int64_t ranks);

// Which of a tensor's numbers, in the order of the flat tensor, each rank owns: as many as every other, but the last of
// them, which own what is left, or nothing.
class Owners {
 public:
  // `unit`: numbers that stay together; the first of a stretch is a multiple of it.
  explicit Owners(std::int64_t ranks, std::int64_t unit = 1) : ranks_(ranks), unit_(unit) {}

  std::int64_t ranks() const { return ranks_; }
  // What of so many numbers a rank owns: the first of them, and how many.
  std::int64_t stretch(std::int64_t numbers) const;
  std::int64_t first(std::int64_t numbers, std::int64_t rank) const;
  std::int64_t size(std::int64_t numbers, std::int64_t rank) const;
  // That part of a contiguous tensor, flat.
  at::Tensor own(const at::Tensor& tensor, std::int64_t rank) const;

 private:
  std::int64_t ranks_, unit_;
};

// Of each owner's stretch of one tensor, `size` numbers from `of_stretch` on, which are exchanged in a tensor
// [owners, length] from column `column` on.
struct ExchangePiece {
  std::size_t tensor;
  std::int64_t of_stretch, column, size;
};

// float32, contiguous. From the flat tensor of that piece into what is exchanged, and back; what owners lack of it
// there adds nothing, the sign of 0 included.
void put_piece(const at::Tensor& exchanged, const ExchangePiece& piece, const at::Tensor& flat, const Owners& owners);
void take_piece(const at::Tensor& flat, const ExchangePiece& piece, const at::Tensor& exchanged, const Owners& owners);
// How many of the piece's numbers, of a tensor of so many, a rank owns.
std::int64_t owned_of_piece(const ExchangePiece& piece, std::int64_t numbers, std::int64_t rank, const Owners& owners);

struct ExchangePlan {
  std::vector<ExchangePiece> pieces = {};
  std::int64_t length = 0;  // numbers for each owner
};

// Of tensors with so many numbers, float32, in that order.
std::vector<std::vector<ExchangePlan>> planned_buckets(const std::vector<std::size_t>& order,
                                                       const std::vector<std::int64_t>& numbers, const Owners& owners);

}  // namespace cogwheel::distributed
