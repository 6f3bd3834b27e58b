//! Compiles every specialization of the published kernels for every architecture, without a GPU, as the test of the
//! same name of `syncline-cuda` does.

#[path = "../../syncline-cuda/tests/common/compile.rs"]
mod checks;

#[test]
fn every_specialization_compiles() {
    checks::compile_all(&syncline_papers::HEADERS, syncline_papers::specializations);
}
