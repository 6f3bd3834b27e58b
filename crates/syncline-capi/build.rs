//! Gives the shared library its name for the dynamic linker.

fn main() {
    match std::env::var("CARGO_CFG_TARGET_OS").as_deref() {
        Ok("linux") => println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libsyncline.so.0"),
        Ok("macos") => println!("cargo::rustc-cdylib-link-arg=-Wl,-install_name,@rpath/libsyncline.0.dylib"),
        _ => {}
    }
    println!("cargo::rerun-if-changed=build.rs");
}
