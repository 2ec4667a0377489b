// Buckets in which the numbers of many tensors travel between ranks, of which each owns a stretch of every tensor.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cogwheel::distributed {

// How many bytes travel at a time, of tensors of so many in all: a sixteenth, so that little is left to send when the
// last gradient is there, but 4 to 24 MiB, where a round trip is little and threads that send do not take turns with
// those that compute all the time (docs/results/scale.md), and at least 64 KiB for each rank.
std::int64_t bytes_of_a_bucket(std::int64_t all_bytes, std::int64_t ranks);

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

// Of each owner's stretch of one tensor, `size` numbers from `of_stretch` on, which stand in a bucket [owners, length]
// from column `column` on.
struct BucketPiece {
  std::size_t tensor;
  std::int64_t of_stretch, column, size;
};

struct BucketPlan {
  std::vector<BucketPiece> pieces = {};
  std::int64_t length = 0;  // numbers for each owner

  // float32, contiguous. From the flat tensor of that piece into the bucket, and back; what owners lack of it, in the
  // bucket, adds nothing, the sign of 0 included.
  static void put(const at::Tensor& bucket, const BucketPiece& piece, const at::Tensor& flat, const Owners& owners);
  static void take(const at::Tensor& flat, const BucketPiece& piece, const at::Tensor& bucket, const Owners& owners);
  // How many numbers of the piece a rank owns.
  static std::int64_t owned(const BucketPiece& piece, std::int64_t numbers, std::int64_t rank, const Owners& owners);
};

// Of tensors with so many numbers, float32, in that order.
std::vector<BucketPlan> planned_buckets(const std::vector<std::size_t>& order, const std::vector<std::int64_t>& numbers,
                                        const Owners& owners);

}  // namespace cogwheel::distributed
