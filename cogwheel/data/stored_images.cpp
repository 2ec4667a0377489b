#include "cogwheel/data/stored_images.h"

#include "cogwheel/core/error.h"
#include "cogwheel/data/held_out_tenth.h"

namespace cogwheel {
namespace {

class StoredImages final : public ImageSource {
 public:
  StoredImages(ImageSetFacts facts, std::shared_ptr<const ImageStore> store, ImageSplit split)
      : store_(std::move(store)), split_(std::move(split)) {
    facts_ = std::move(facts);
    if (split_.held_out.empty()) hold_out_a_tenth();
    if (split_.training.empty()) throw Error(expected_got(name(), "images to train on", "none"));
  }

  std::int64_t images(ImagePart part) const override { return std::ssize(numbers(part)); }
  ImageExample image(ImagePart part, std::int64_t index) const override {
    return store_->image(numbers(part)[static_cast<std::size_t>(index)]);
  }
  std::shared_ptr<const ImageSource> for_tuning() const override {
    return std::make_shared<StoredImages>(facts_, store_, ImageSplit{split_.training, split_.tuning});
  }

 private:
  const std::vector<std::int64_t>& numbers(ImagePart part) const {
    return part == ImagePart::training ? split_.training : split_.held_out;
  }

  void hold_out_a_tenth() {
    std::vector<std::string> origins;
    for (const std::int64_t index : split_.training) origins.push_back(store_->origin(index));
    const std::vector<bool> held_out = held_out_tenth(origins);
    std::vector<std::int64_t> training;
    for (std::size_t place = 0; place < origins.size(); ++place)
      (held_out[place] ? split_.held_out : training).push_back(split_.training[place]);
    if (split_.held_out.empty())
      throw Error(expected_got(name(), "two different images or more, one to hold out",
                               origins.empty() ? "none" : "only equal ones"));
    split_.training = std::move(training);
  }

  std::shared_ptr<const ImageStore> store_;
  ImageSplit split_;
};

}  // namespace

std::shared_ptr<const ImageSource> stored_images(ImageSetFacts facts, std::shared_ptr<const ImageStore> store,
                                                 ImageSplit split) {
  return std::make_shared<StoredImages>(std::move(facts), std::move(store), std::move(split));
}

}  // namespace cogwheel
