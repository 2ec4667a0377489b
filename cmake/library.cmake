# cogwheel_unit(<target> <name> <file>…): of these files of a target, one unit, where units are joined at all. Files of
# another folder than the target's are named by their whole paths.
function(cogwheel_unit target name)
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
  set_source_files_properties(${ARGN} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${name})
endfunction()

# cogwheel_whole(<variable> <target>): the library that the target is, which the name of a folder in it is an alias of.
function(cogwheel_whole variable target)
  set(whole)
  if(TARGET ${target})
    get_target_property(whole ${target} ALIASED_TARGET)
  endif()
  if(NOT whole)
    set(whole ${target})
  endif()
  set(${variable} ${whole} PARENT_SCOPE)
endfunction()

# cogwheel_light_optimization(<target>): for code that waits for other libraries when it runs. It compiles in half the
# time.
function(cogwheel_light_optimization target)
  cogwheel_whole(whole ${target})
  target_compile_options(${whole} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O1>)
endfunction()

# cogwheel_sources(<variable>): every .cpp file of the folder and of those subfolders that are no libraries of their own nor
# in one.
function(cogwheel_sources variable)
  file(GLOB_RECURSE found CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  set(sources "")
  foreach(source IN LISTS found)
    set(of_another FALSE)
    get_filename_component(within ${source} DIRECTORY)
    while(within)
      if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${within}/CMakeLists.txt)
        set(of_another TRUE)
      endif()
      get_filename_component(within ${within} DIRECTORY)
    endwhile()
    if(NOT of_another)
      list(APPEND sources ${source})
    endif()
  endforeach()
  set(${variable} ${sources} PARENT_SCOPE)
endfunction()

# cogwheel_library(<folder> [JOINS <name> [OWN_UNIT]] [SOURCES …] [BUT …] [DEPENDS …] [USES …]): the static library of a folder of
# cogwheel/, cogwheel_<folder> with _ for /, and without what stands before mechanisms, kernels and authoring. What a folder
# links is what it may include: DEPENDS are libraries that its headers include too, USES those of its sources alone.
#
# Its sources are SOURCES and, unless they are all there is to it (ONLY), cogwheel_sources, but for BUT. They are one unit.
#
# Folders that JOIN the same name are one library, cogwheel_<name>, and one unit, which reads libtorch's headers once for all
# of them; cogwheel_<folder> is another name for it. That none includes what stands below it is then left to
# tests/python/test_repository.py.
# OWN_UNIT: one of them is a unit by itself all the same, as of what is compiled last, when a core has nothing else to do.
function(cogwheel_library folder)
  cmake_parse_arguments(PARSE_ARGV 1 library "ONLY;OWN_UNIT" "JOINS" "SOURCES;BUT;DEPENDS;USES")
  string(REGEX REPLACE "^attention/" "" name ${folder})
  string(REPLACE "/" "_" name ${name})
  set(sources ${library_SOURCES})
  if(NOT library_ONLY)
    cogwheel_sources(found)
    list(APPEND sources ${found})
    list(REMOVE_ITEM sources ${library_BUT} "")
  endif()
  set(target cogwheel_${name})
  if(library_JOINS)
    set(target cogwheel_${library_JOINS})
    if(NOT TARGET ${target})
      add_library(${target} STATIC)
    endif()
    add_library(cogwheel_${name} ALIAS ${target})
    list(TRANSFORM sources PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ REGEX "^[^/]")
  else()
    add_library(${target} STATIC)
  endif()
  target_sources(${target} PRIVATE ${sources})
  set(unit folder)
  if(library_OWN_UNIT)
    set(unit ${name})
  endif()
  cogwheel_unit(${target} ${unit} ${sources})
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include>)
  foreach(dependency IN LISTS library_DEPENDS)
    cogwheel_whole(whole ${dependency})
    if(NOT whole STREQUAL target)
      target_link_libraries(${target} PUBLIC ${dependency})
    endif()
  endforeach()
  target_link_libraries(${target} PRIVATE ${library_USES} $<BUILD_INTERFACE:cogwheel_warnings>)
endfunction()
