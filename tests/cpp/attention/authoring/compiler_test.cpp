#include "cogwheel/attention/authoring/compiler.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "cogwheel/core/error.h"

namespace cogwheel::authoring {
namespace {

const std::string source = "#pragma once\nstruct Mine {\n  int f() { return foo; }\n};\n";

TEST(FirstError, ShowsTheUsersOwnLine) {
  EXPECT_EQ(first_error("In file included from module.cpp:3:\n"
                        "/a/mine.h: In member function 'int Mine::f()':\n"
                        "/a/mine.h:3:20: error: 'foo' was not declared in this scope\n"
                        "    3 |   int f() { return foo; }\n"
                        "/engine.h:9:9: error: something that follows\n",
                        "/a/mine.h", source),
            "/a/mine.h:3: expected C++ that compiles, got 'foo' was not declared in this scope, in: int f() { return "
            "foo; }");
}

TEST(FirstError, IsTheLineFromWhichATemplateFails) {
  EXPECT_EQ(first_error("/a/mine.h:3:5:   required from here\n/engine.h:9:9: error: no match for 'operator*'\n",
                        "/a/mine.h", source),
            "/a/mine.h:3: expected C++ that compiles, got no match for 'operator*', in: int f() { return foo; }");
}

TEST(FirstError, OfTheContractIsItsMessage) {
  EXPECT_EQ(first_error("module_body.h:20:15: error: static assertion failed: expected a `description`, got none\n",
                        "/a/mine.h", source),
            "/a/mine.h: expected a `description`, got none");
}

TEST(FirstError, IsOneLineHoweverLongTheUsersIs) {
  const std::string message = first_error("/a/mine.h:1:1: error: 'x' does not name a type\n", "/a/mine.h",
                                          "x" + std::string(400000, ' ') + "y");
  EXPECT_LT(message.size(), 300u);
}

TEST(RefusalOfTheWorld, IsToldFromAMistakeInTheSource) {
  for (const std::string line :
       {"mine.h:5:1: fatal error: error writing to /tmp/ccX.s: No space left on device",
        "/usr/bin/ld: final link failed: Disk quota exceeded",
        "c++: fatal error: Killed signal terminated program cc1plus",
        "collect2: fatal error: ld terminated with signal 7 [Bus error]",
        "cc1plus: out of memory allocating 65536 bytes after a total of 1000 bytes",
        "c++: error: unrecognized command-line option '-std=c++20'", "clang: error: unable to execute command: Killed",
        "g++: fatal error: cannot execute 'cc1plus': execvp"})
    EXPECT_EQ(
        refusal_of_the_world({.status = 1, .output = "In file included from module.cpp:3:\n" + line + "\nmore\n"}),
        line);
  EXPECT_EQ(refusal_of_the_world({.status = 128 + 9, .output = ""}), "a signal, Killed");
  EXPECT_EQ(refusal_of_the_world({.status = 1,
                                  .output = "/a/mine.h:3:20: error: 'foo' was not declared in this scope\n"
                                            "    3 |   int f() { return foo; }  // No space left on device\n"}),
            "");
}

TEST(Compiler, IsTheOneThatTheEnvironmentNames) {
  const char* before = ::getenv("CXX");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("CXX", "/nowhere/cxx -fast", 1);
  try {
    find_compiler();
    FAIL() << "found /nowhere/cxx";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("got CXX=/nowhere/cxx -fast, which does not run"), std::string::npos)
        << error.what();
  }
  before == nullptr ? ::unsetenv("CXX") : ::setenv("CXX", kept.c_str(), 1);
  const Compiler compiler = find_compiler();
  EXPECT_FALSE(compiler.identity.empty());
}

}  // namespace
}  // namespace cogwheel::authoring
