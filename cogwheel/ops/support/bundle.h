// Structs of arguments, and the operators that take them: C++ functions take such a struct whole, an operator's schema
// and the dispatcher take it member by member. Its members are listed once.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace cogwheel::ops {

// As the dispatcher passes a tensor that may be missing; autograd and ATen have an undefined one in its place.
using OptionalTensor = std::optional<at::Tensor>;
inline at::Tensor or_undefined(const OptionalTensor& tensor) { return tensor.value_or(at::Tensor()); }
inline OptionalTensor or_none(const at::Tensor& tensor) {
  return tensor.defined() ? OptionalTensor(tensor) : std::nullopt;
}

template <class Struct, class T>
struct Member {
  using Type = T;
  const char* name;
  T Struct::*place;
};

// Specialised for each such struct, with a tuple of its Members in the order of the schema: Bundle<Struct>::members.
template <class Struct>
struct Bundle;
template <class T>
concept Bundled = requires {
  Bundle<T>::members;
};

// As the dispatcher passes it.
template <class T>
using Passed = std::conditional_t<std::is_same_v<T, std::string>, std::string_view,
                                  std::conditional_t<std::is_trivially_copyable_v<T>, T, const T&>>;

template <class... Types>
struct TypeList {};
template <class... Lists>
struct Joined {
  using List = TypeList<>;
  static constexpr std::size_t count = 0;
};
template <class... Types, class... Rest>
struct Joined<TypeList<Types...>, Rest...> {
  template <class... More>
  static TypeList<Types..., More...> before(TypeList<More...>);
  using List = decltype(before(typename Joined<Rest...>::List()));
  static constexpr std::size_t count = sizeof...(Types) + Joined<Rest...>::count;
};

namespace schema {

template <class T>
constexpr const char* type_name() {
  if constexpr (std::is_same_v<T, at::Tensor>) return "Tensor";
  if constexpr (std::is_same_v<T, OptionalTensor>) return "Tensor?";
  if constexpr (std::is_same_v<T, bool>) return "bool";
  if constexpr (std::is_same_v<T, std::int64_t>) return "int";
  if constexpr (std::is_same_v<T, std::optional<std::int64_t>>) return "int?";
  if constexpr (std::is_same_v<T, double>) return "float";
  if constexpr (std::is_same_v<T, std::optional<double>>) return "float?";
  if constexpr (std::is_same_v<T, std::string>) return "str";
}

// "=value", a member's default; nothing for tensors, which have none.
inline std::string default_of(const at::Tensor&) { return ""; }
inline std::string default_of(bool value) { return value ? "=True" : "=False"; }
inline std::string default_of(std::int64_t value) { return "=" + std::to_string(value); }
inline std::string default_of(double value) { return "=" + std::to_string(value); }
inline std::string default_of(const std::string& value) { return "=\"" + value + "\""; }
template <class T>
std::string default_of(const std::optional<T>&) {
  return "=None";
}

}  // namespace schema

// One argument of a C++ function: the dispatcher's arguments that make it up (Types), how it is made from those at
// `first` and after, how it is split into them, and its text in a schema.
template <class T>
struct Argument {
  using Types = TypeList<T>;
  template <std::size_t first, class Given>
  static T made_of(const Given& given) {
    return T(std::get<first>(given));
  }
  static std::tuple<Passed<T>> parts(const T& whole) { return {whole}; }
  static std::string described(const char* name, const T& initial) {
    return std::string(schema::type_name<T>()) + " " + name + schema::default_of(initial);
  }
};

// The place of the first part of an argument among those of a list.
template <class... Each>
constexpr std::size_t place_of(std::size_t index) {
  constexpr std::size_t counts[] = {Joined<typename Argument<Each>::Types>::count..., 0};
  std::size_t sum = 0;
  for (std::size_t before = 0; before < index; ++before) sum += counts[before];
  return sum;
}

template <class Struct, class Members>
struct BundledArgument;
template <class Struct, class... Each>
struct BundledArgument<Struct, std::tuple<Member<Struct, Each>...>> {
  using Types = typename Joined<typename Argument<Each>::Types...>::List;

  template <std::size_t first, class Given>
  static Struct made_of(const Given& given) {
    Struct whole{};
    fill<first>(whole, given, std::index_sequence_for<Each...>());
    return whole;
  }
  static auto parts(const Struct& whole) {
    return std::apply(
        [&](const auto&... member) { return std::tuple_cat(Argument<Each>::parts(whole.*member.place)...); },
        Bundle<Struct>::members);
  }

 private:
  template <std::size_t first, class Given, std::size_t... index>
  static void fill(Struct& whole, const Given& given, std::index_sequence<index...>) {
    ((whole.*std::get<index>(Bundle<Struct>::members).place =
          Argument<Each>::template made_of<first + place_of<Each...>(index)>(given)),
     ...);
  }
};

template <Bundled T>
struct Argument<T> : BundledArgument<T, std::remove_cvref_t<decltype(Bundle<T>::members)>> {};

// The members of T in a schema: "float scale=1.0, Tensor? bias=None".
template <Bundled T>
std::string schema_of() {
  const T initial{};
  std::string text;
  std::apply(
      [&](const auto&... member) {
        ((text +=
          (text.empty() ? "" : ", ") + Argument<typename std::remove_cvref_t<decltype(member)>::Type>::described(
                                           member.name, initial.*member.place)),
         ...);
      },
      Bundle<T>::members);
  return text;
}

// Unbundled<function>::call is the function as the dispatcher calls it; `dispatch` calls an operator of that signature.
template <auto function>
struct Unbundled;
template <class Result, class... Whole, Result (*function)(Whole...)>
struct Unbundled<function> {
 private:
  template <std::size_t... index>
  static Result called(const auto& given, std::index_sequence<index...>) {
    return function(
        Argument<std::remove_cvref_t<Whole>>::template made_of<place_of<std::remove_cvref_t<Whole>...>(index)>(
            given)...);
  }
  template <class Types>
  struct Flat;
  template <class... Types>
  struct Flat<TypeList<Types...>> {
    static Result call(Passed<Types>... given) {
      return called(std::tuple<Passed<Types>...>(given...), std::index_sequence_for<Whole...>());
    }
  };
  using FlatCall = Flat<typename Joined<typename Argument<std::remove_cvref_t<Whole>>::Types...>::List>;

 public:
  static constexpr auto call = &FlatCall::call;
  using Signature = std::remove_pointer_t<decltype(call)>;

  // `handle`: a TypedOperatorHandle<Signature>.
  static Result dispatch(const auto& handle, const std::remove_cvref_t<Whole>&... whole) {
    return std::apply([&](auto&&... part) { return handle.call(std::forward<decltype(part)>(part)...); },
                      std::tuple_cat(Argument<std::remove_cvref_t<Whole>>::parts(whole)...));
  }
};

}  // namespace cogwheel::ops
